// Owns the strict way from YAML text to a tree of values with line numbers. Knows nothing of keys or recipes.
//
// Strict: valid UTF-8 without control characters, at most 1 MB, 64 levels, one document, no tags, no merge keys, no
// key twice, spaces for indentation. Anchors and aliases are allowed while what they expand to stays small.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"

namespace qrl::config {

struct YamlNode;
/// Shared because an alias is the same node seen from a second place.
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlMember {
  std::string name;
  int line = 0;  ///< from 1
  YamlPtr value;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  std::string text;                 ///< of a scalar
  bool quoted = false;              ///< a scalar in quotes or a block: text whatever it looks like
  int line = 1;                     ///< from 1
  std::vector<YamlPtr> items;       ///< of a sequence
  std::vector<YamlMember> members;  ///< of a map, in file order, names unique
  std::size_t num_nodes = 1;        ///< of the tree below and with this node, aliases expanded
  std::size_t height = 1;           ///< levels, aliases expanded
};

/// Where a text came from, as messages name it.
struct YamlSource {
  std::string name;                      ///< a file, or "--set optim.lr"
  bool has_lines = true;                 ///< false: a message needs no line
  std::filesystem::path directory = {};  ///< what relative paths in it are relative to; empty: the working directory
  std::string at(int line) const { return has_lines ? name + ":" + std::to_string(line) : name; }
};

inline constexpr std::size_t kMaxYamlBytes = 1'000'000;

/// The tree of `text`; an empty text is null. Faults go to `faults`; nullptr when no tree could be made. Throws
/// nothing of its own.
YamlPtr parse_yaml(std::string_view text, const YamlSource& source, Faults& faults);

}  // namespace qrl::config

// Owns the strict parse of YAML into a tree with line numbers. Accepts one document in UTF-8 of at most 1 MB and 64
// levels, indented by spaces, without control characters. Refuses tags, merge keys and repeated keys. Allows anchors
// and aliases while their expansion is small.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/errors.h"

namespace qrl::config {

struct YamlNode;
/// The aliases of a node share it.
using YamlPtr = std::shared_ptr<const YamlNode>;

struct YamlMember {
  std::string name;
  int line = 0;  ///< 1-based
  YamlPtr value;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };
  Kind kind = Kind::null;
  std::string text;
  bool quoted = false;  ///< whether a scalar is in quotes or a block scalar, hence text
  int line = 1;         ///< 1-based
  std::vector<YamlPtr> items;
  std::vector<YamlMember> members;  ///< members with unique names, in file order
  std::size_t num_nodes = 1;        ///< nodes of this subtree, aliases expanded
  std::size_t height = 1;           ///< levels of this subtree, aliases expanded
};

/// Names a text's source for messages.
struct YamlSource {
  std::string name;                      ///< a file, or "--set KEY"
  bool has_lines = true;                 ///< false: messages state no line
  std::filesystem::path directory = {};  ///< folder for relative paths; empty: the working directory
  std::string if_json_lines = {};        ///< advice for a file of JSON lines; "": that for several documents
  std::string at(int line) const { return has_lines ? name + ":" + std::to_string(line) : name; }
};

inline constexpr std::size_t kMaxYamlBytes = 1'000'000;

/// Returns the tree of `text`; for "", a null node. Adds errors without throwing. Returns nullptr after a fatal error.
YamlPtr parse_yaml(std::string_view text, const YamlSource& source, Errors& errors);

/// Returns the tree of one of the program's own texts. Throws an input error with all errors of the text.
YamlPtr parse_own_yaml(std::string_view text, const std::string& name);

}  // namespace qrl::config

#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/errors.h"
#include "config/keys/key.h"
#include "config/rules.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

/// Records a key for which the mode has a value, but the recipe sets another. The recipe's value applies.
struct ModeOverride {
  std::string key, mode_value, own_value;
  std::string place;  ///< "file:line" or "--set key" of own_value
};

/// Reads a regular file up to one byte beyond what parse_yaml accepts. Returns false on a read error.
bool read_bytes(const std::filesystem::path& file, std::string& bytes);

/// Sets a recipe's keys from files, arguments, a mode and defaults. Collects all faults, and where keys were set.
class Reader {
 public:
  /// `recipe` has its defaults, and is set in place. Errors call it `whole`. Both references must outlive the reader.
  Reader(const Keys& keys, Recipe& recipe, std::string whole);

  /// Applies the file's includes, then its own keys.
  void add_file(std::string_view yaml, const std::filesystem::path& file, const std::filesystem::path& directory);
  /// Applies an argument KEY=VALUE.
  void add_override(const std::string& argument);
  /// Drops keys that an included recipe sets and that lost their effect: the including recipe or --set changed another
  /// key. A key without effect at the same level of includes stays, and is an error.
  void drop_replaced();
  /// Applies the mode's defaults to keys that nothing else sets. A mode lists a key before keys that depend on it.
  /// `of_mode` has no value yet, and gets the mode's.
  void add_mode(const Option& mode, Recipe& of_mode);
  /// Sets keys that an earlier version's record lacks to their absent_in_record.
  void add_absent();
  /// Replaces null by the value that it means. `said` equals the recipe.
  void fill(const Recipe& said);

  /// Returns "file:line", "--set key" or "mode NAME" of each key that is set.
  std::map<std::string, std::string> places() const;
  const Origins& origins() const { return origins_; }
  const std::vector<ModeOverride>& mode_overrides() const { return mode_overrides_; }
  Errors& errors() { return errors_; }
  /// Returns false if a file was not read, so that rules cannot be checked.
  bool is_whole() const { return is_whole_; }

 private:
  bool is_set(const Key& key) const { return origins_.places.contains(key.name); }
  std::string place_of(const Key& key) const;
  bool quoting_helps(const std::string& name, const std::string& value) const;
  void include(const YamlMember& member, const YamlSource& source);
  void set_member(const YamlMember& member, const std::string& section, const YamlSource& source);
  /// Sets an existing key, or the keys of a section. Only a file may have an empty section.
  void set(const YamlNode& node, const std::string& name, const YamlSource& source);
  void set_key(const YamlNode& node, const Key& key, const YamlSource& source);
  /// Adds an error with advice for each leaf below an unknown key.
  void refuse_unknown(const YamlNode& node, const std::string& name, const YamlSource& source, int line = 1);

  const Keys& keys_;
  Recipe& recipe_;
  Origins origins_;
  /// Maps a key to the include depth at which it was last set: 0 for --set, 1 for the outermost file. A lower depth
  /// overrides a higher one.
  std::map<std::string, std::size_t> levels_;
  std::vector<ModeOverride> mode_overrides_;
  Errors errors_;
  std::vector<std::filesystem::path> chain_;  ///< files being read, outermost first
  bool is_whole_ = true;
};

}  // namespace qrl::config

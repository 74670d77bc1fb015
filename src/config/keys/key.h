// Owns what a recipe's key is: its type, its meaning, how it is read and printed; and the list of a program's keys, one
// row each, in which a key is found by its name. The reader, --help-all, the resolved recipe and the reference page are
// generated from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/recipe.h"
#include "config/yaml/scalars.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

enum class OnResume : std::uint8_t {
  fixed,         ///< must not change
  allow_change,  ///< may change with --allow-change, with other results
  free,          ///< may change: no weight depends on it
};

/// Describes another key's value that a key needs for its effect.
struct Condition {
  std::string key;     ///< the other key; "": none needed
  std::string values;  ///< a text that has_value reads, or describes `holds`
  std::function<bool(const Recipe&)> holds;
  std::string advice = "it has no effect: delete it";
};

/// Describes what another key must be while a key has certain values.
struct Requirement {
  std::string when;    ///< values of the row's key
  std::string key;     ///< the other key
  std::string values;  ///< its values
  std::string advice;
};

/// Describes a key: one row of the tables in keys/*keys.cpp.
struct Key {
  std::string name;     ///< dotted: "optim.lr"
  std::string type;     ///< type and range: "float > 0"
  std::string meaning;  ///< one line
  std::string unset;    ///< meaning of null; "": not accepted

  /// Sets the member from a value that is not null. Throws ParseError.
  std::function<void(const YamlNode&, Recipe&)> read = {};
  /// Sets the member to its default.
  std::function<void(Recipe&)> reset = {};
  /// Returns canonical YAML, "null" if unset.
  std::function<std::string(const Recipe&)> print = {};
  /// Replaces an unset member by null's value; empty if a recipe cannot hold it.
  std::function<void(Recipe&)> fill = {};
  /// Makes input paths absolute, relative to `directory` (empty: the working directory); empty without paths.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor = {};
  /// Returns the value that `auto` has in a recipe, where rules need it; empty: `print`.
  std::function<std::string(const Recipe&)> resolved = {};
  OnResume on_resume = OnResume::fixed;
  Condition condition = {};
  std::vector<Requirement> requirements = {};
  std::vector<std::pair<std::string, std::string>> conflicts = {};  ///< other key, advice: only one may be set
  /// An earlier version's default as YAML, which its checkpoints print: no error without effect. Empty: unchanged.
  std::string former_default = {};
  /// The value as YAML for records of versions without this key. Empty: the default.
  std::string absent_in_record = {};

  /// Complete a row; each returns the row.
  /// Declares that the key has an effect only while `other` has one of `values` (has_value), or `holds`.
  Key& only_with(const std::string& other, const std::string& values,
                 std::function<bool(const Recipe&)> holds = nullptr);
  /// Declares that `other` must have one of `values` while this key has one of `when` (has_value).
  Key& needs(std::string when, std::string other, std::string values, std::string advice);
  /// Makes null the default of the option that the key `selector` selects. Help lists the first option's default and
  /// every different one.
  Key& unset_by(const std::string& selector, const AnyChoices& choices);
  /// Declares that not both keys may differ from their defaults.
  Key& conflicts_with(std::string other, std::string advice);

  /// Returns whether the key has an effect in a recipe.
  bool acts(const Recipe& recipe) const { return condition.key.empty() || condition.holds(recipe); }
};

/// Returns whether a key has one of `values` in a recipe, with `auto` resolved. `values` is "set", "unset", "changed"
/// (not the default), "default", "above N" (null as well), "other than A or B", or words: "A, B or C".
bool has_value(const Key& key, const Recipe& recipe, std::string_view values);

/// Returns the condition "`key` has one of `values`".
Condition condition_of(const std::string& key, const std::string& values);

/// Holds all keys of a recipe with a catalog's words.
class Keys {
 public:
  explicit Keys(Catalog catalog);
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  const Catalog& catalog() const { return catalog_; }
  /// Returns all keys in print order, by section.
  const std::vector<Key>& all() const { return all_; }
  const std::vector<std::string>& names() const { return names_; }
  /// Returns the key, or nullptr.
  const Key* find(std::string_view name) const;
  /// Returns whether some key is called "name.…".
  bool is_section(std::string_view name) const;
  const Recipe& defaults() const { return defaults_; }

 private:
  Catalog catalog_;
  Recipe defaults_;
  std::vector<Key> all_;
  std::vector<std::string> names_;
};

/// Returns the keys that select an option, each with its option in a recipe; null: none.
std::vector<std::pair<std::string, const Option*>> selected_options(const Recipe& recipe);

}  // namespace qrl::config

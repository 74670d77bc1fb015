// Owns the description of a recipe's key, and the list of a program's keys. The reader, --help-all, the resolved recipe
// and the reference page use the list.
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
  fixed,
  allow_change,  ///< may change with --allow-change; changes results
  free,          ///< may change: no weight depends on it
};

/// Describes the values that another key must have for a key to have an effect.
struct Condition {
  std::string key;     ///< the other key; "": none needed
  std::string values;  ///< values for has_value, or a description of `holds`
  std::function<bool(const Recipe&)> holds;
  std::string advice = "it has no effect: delete it";
};

/// Describes the values that another key must have while the declaring key has an effect and one of the values `when`.
struct Requirement {
  std::string when;    ///< values of the declaring key; "": any
  std::string key;     ///< the other key
  std::string values;  ///< allowed values of the other key
  std::string advice;
};

/// Describes a key: one row of the tables in keys/*keys.cpp.
struct Key {
  std::string name;     ///< dotted: "optim.lr"
  std::string type;     ///< type and range: "float > 0"
  std::string meaning;  ///< one line
  std::string unset;    ///< meaning of null; "": null is invalid

  /// Sets the member from a value that is not null. Throws ParseError.
  std::function<void(const YamlNode&, Recipe&)> read = {};
  std::function<void(Recipe&)> reset = {};
  std::function<bool(const Recipe&, const Recipe&)> equal = {};
  /// Returns canonical YAML, "null" if unset.
  std::function<std::string(const Recipe&)> print = {};
  /// Replaces an unset member by the value that null means. Empty if a recipe cannot hold that value.
  std::function<void(Recipe&)> fill = {};
  /// Makes input paths absolute (Type::anchor). Empty for keys without paths.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor = {};
  /// Returns the values that has_value compares instead of the printed value, such as the device that `auto` selects.
  std::function<std::vector<std::string>(const Recipe&)> effective = {};
  OnResume on_resume = OnResume::fixed;
  Condition condition = {};
  std::vector<Requirement> requirements = {};
  /// Value, as YAML, for records of versions that lacked this key; empty: the default.
  std::string absent_in_record = {};

  /// Declares that the key has an effect only while `other` has one of `values` (has_value).
  Key& only_with(const std::string& other, const std::string& values);
  /// Declares that `other` must have one of `values` while this key has one of `when` (has_value).
  Key& needs(std::string when, std::string other, std::string values, std::string advice);
  /// Declares that `other` must have its default while this key differs from its own.
  Key& excludes(std::string other, std::string advice) {
    return needs("changed", std::move(other), "default", std::move(advice));
  }
  /// Makes null mean `value`: YAML, or the name of a key whose value applies while this key has an effect.
  Key& unset_is(const std::string& value);
  /// Makes null mean the selected option's default for this key. Help lists the different defaults of `choices`.
  Key& unset_by(const AnyChoices& choices);

  /// Returns whether the key has an effect in a recipe.
  bool acts(const Recipe& recipe) const { return condition.key.empty() || condition.holds(recipe); }
};

/// Returns whether a key has one of `values`: "set", "unset", "default", "changed" (not the default), "other than A or
/// B", words ("A, B or C"), or a bound: "above N", "at least N" or "at most N". N is a number or the name of a key.
/// null and auto are within every bound.
bool has_value(const Key& key, const Recipe& recipe, std::string_view values);

Condition condition_of(const std::string& key, const std::string& values);

/// Holds all keys of a recipe, and the catalog of their options.
class Keys {
 public:
  explicit Keys(Catalog catalog);
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  const Catalog& catalog() const { return catalog_; }
  /// Returns all keys in print order, by section.
  const std::vector<Key>& all() const { return all_; }
  const std::vector<std::string>& names() const { return names_; }
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

bool operator==(const Recipe& one, const Recipe& other);

/// Returns the keys that select an option, each with its option in a recipe; nullptr: none.
std::vector<std::pair<std::string, const Option*>> selected_options(const Recipe& recipe);

}  // namespace qrl::config

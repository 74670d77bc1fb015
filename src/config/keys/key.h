// Owns the description of a recipe's key, and the list of a program's keys. The recipe is a type that only the owner of
// the keys knows; functions of a key reach its members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/option.h"
#include "config/yaml/scalars.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::train {
struct Recipe;
}

namespace qrl::config {

using train::Recipe;
class Keys;

enum class OnResume : std::uint8_t {
  fixed,
  allow_change,  ///< may change only with --allow-change, because it affects results
  free,          ///< may change: no weight depends on it
};

/// Describes the values that another key must have for this key to have an effect.
struct Condition {
  std::string key;     ///< the other key; "": no condition
  std::string values;  ///< text for messages: values in has_value's syntax, or what `holds` checks
  std::function<bool(const Recipe&)> holds = {};  ///< empty: has_value(key, values)
  std::string advice = "it has no effect: delete it";
};

/// Describes the values that another key must have. Applies while the declaring key has an effect and has one of the
/// values `when`.
struct Requirement {
  std::string when;  ///< values of the declaring key, in has_value's syntax; "": any
  std::string key;
  std::string values;  ///< allowed values of the other key
  std::string advice;
};

/// Describes a key: one row of a part's table.
struct Key {
  std::string name;  ///< dotted: "section.key"
  std::string type;  ///< type and range: "float > 0"
  std::string meaning;
  std::string unset;  ///< meaning of null; "": null is invalid

  /// Sets the member from a value that is not null. Throws ParseError.
  std::function<void(const YamlNode&, Recipe&)> read = {};
  std::function<void(Recipe&)> reset = {};
  std::function<bool(const Recipe&, const Recipe&)> equal = {};
  /// Returns canonical YAML, "null" if unset.
  std::function<std::string(const Recipe&)> print = {};
  /// Replaces an unset member by the value that null means. This function is empty if a recipe cannot hold that value.
  std::function<void(Recipe&)> fill = {};
  /// Makes input paths absolute (Type::anchor). This function is empty for keys without paths.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor = {};
  /// If set, returns the values that has_value compares instead of the printed value. Example: the device that `auto`
  /// selects.
  std::function<std::vector<std::string>(const Recipe&)> effective = {};
  OnResume on_resume = OnResume::fixed;
  Condition condition = {};
  std::vector<Requirement> requirements = {};
  /// YAML value of this key for records that an earlier version without the key wrote; empty: the default.
  std::string absent_in_record = {};
  const Keys* keys = nullptr;  ///< the list that holds the key

  /// Declares that the key has an effect only while `other` has one of `values`, in has_value's syntax.
  Key& only_with(const std::string& other, const std::string& values);
  /// Declares that `other` must have one of `values` while this key has one of the values `when`.
  Key& needs(std::string when, std::string other, std::string values, std::string advice);
  /// Declares that `other` must have its default while this key differs from this key's default.
  Key& excludes(std::string other, std::string advice) {
    return needs("changed", std::move(other), "default", std::move(advice));
  }
  /// Makes null mean `value` while this key has an effect. `value` is YAML or another key's name. For a name, null
  /// means that key's value.
  Key& unset_is(const std::string& value);
  /// Makes null mean the selected option's default for this key. Help lists the different defaults of `choices`.
  Key& unset_by(const AnyChoices& choices);

  bool acts(const Recipe& recipe) const;
};

/// Returns whether a key has one of `values`. `values` is "set", "unset", "default", "changed" (not the default), words
/// ("A, B or C"), "other than A or B", or a bound. Bounds are "above N", "at least N" and "at most N", where N is a
/// number or the name of a key. null and auto are within every bound.
bool has_value(const Key& key, const Recipe& recipe, std::string_view values);

/// Lists each key that selects an option, with the option that it selects in a recipe; nullptr: none.
using SelectedOptions = std::vector<std::pair<std::string, const Option*>>;

/// Holds all keys of a recipe. A derived class adds them, and knows the recipe's type.
class Keys {
 public:
  /// Shows what errors about whole recipes give as examples.
  struct Examples {
    std::string sections;    ///< "model, data"
    std::string setting;     ///< KEY=VALUE
    std::string json_lines;  ///< advice for a file of JSON lines
  };
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// Returns all keys in print order.
  const std::vector<Key>& all() const { return all_; }
  const std::vector<std::string>& names() const { return names_; }
  const Examples& examples() const { return examples_; }
  const Key* find(std::string_view name) const;
  /// Returns an existing key, for conditions that the part with its row does not know.
  Key& at(std::string_view name);
  bool is_section(std::string_view name) const;

  virtual const Recipe& defaults() const = 0;
  virtual SelectedOptions selected_options(const Recipe& recipe) const = 0;
  /// Returns all options, in the order of their aliases.
  virtual std::vector<const Option*> options() const = 0;

  /// Adds a key behind the others. The reference is valid until the next key is added.
  Key& add(Key key);
  /// Adds a key behind the last one of its section.
  Key& add_to_section(Key key);
  /// Adds a key behind `other`.
  Key& add_behind(std::string_view other, Key key);

 protected:
  explicit Keys(Examples examples) : examples_(std::move(examples)) {}
  ~Keys() = default;

 private:
  Key& insert(std::size_t place, Key key);

  Examples examples_;
  std::vector<Key> all_;
  std::vector<std::string> names_;
};

}  // namespace qrl::config

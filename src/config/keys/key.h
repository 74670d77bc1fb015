// Owns what a recipe's key is: its type, its meaning, how it is read and printed; and the list of a program's keys, in
// which a key is found by its name.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys/resume_keys.h"
#include "config/recipe.h"
#include "config/yaml/scalars.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

/// Describes another key's value that a key needs for its effect.
struct Condition {
  std::string key;     ///< the other key; "": none needed
  std::string values;  ///< for people: "muon", "countdown or arithmetic", "above 0"
  std::function<bool(const Recipe&)> holds;
  std::string advice = "it has no effect: delete it";
};

struct Key {
  std::string name;     ///< dotted: "optim.lr"
  std::string type;     ///< type and range: "float > 0"
  std::string meaning;  ///< one line
  std::string unset;    ///< meaning of null; "": not accepted
  OnResume on_resume = OnResume::fixed;

  /// Sets the member from a value that is not null, or returns why it is refused.
  std::function<std::optional<Refusal>(const YamlNode&, Recipe&)> read;
  /// Sets the member to its default.
  std::function<void(Recipe&)> reset;
  /// Returns canonical YAML, "null" if unset.
  std::function<std::string(const Recipe&)> print;
  /// Replaces an unset member by null's value; empty if a recipe cannot hold it.
  std::function<void(Recipe&)> fill;
  /// Makes input paths absolute, relative to `directory` (empty: the working directory); empty without paths.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor;
  Condition condition = {};
  /// An earlier version's default as YAML, which its checkpoints print: no error without effect. Empty: unchanged.
  std::string former_default = {};
  /// The value as YAML for records of versions without this key. Empty: the default.
  std::string absent_in_record = {};
};

/// Holds all keys of a recipe, with a catalog's.
class Keys {
 public:
  /// Returns the keys of a catalog in print order.
  using Declare = std::vector<Key> (*)(const Catalog& catalog);
  Keys(Catalog catalog, Declare declare);
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

/// Pairs a catalog's list with its selecting key.
struct Selector {
  std::string_view key;
  const Choices* choices;
  const std::string* word;  ///< the word in a recipe
};
std::vector<Selector> selectors_of(const Recipe& recipe);

}  // namespace qrl::config

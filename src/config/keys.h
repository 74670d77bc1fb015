// Owns the list of a recipe's keys, one declaration each. The reader, --help-all, the resolved recipe and the reference
// page are generated from it. A catalog adds the words of losses, corrections and modes, and the keys that belong to
// one of them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "config/resume_keys.h"
#include "config/scalars.h"
#include "config/yaml_tree.h"

namespace qrl::config {

/// Describes the value of another key that a key needs to have an effect.
struct Condition {
  std::string key;     ///< the other key; "": the key always has an effect
  std::string values;  ///< for people: "muon", "countdown or arithmetic", "above 0"
  std::function<bool(const Recipe&)> holds;
  std::string advice = "it has no effect: delete it";
};

struct Key {
  std::string name;     ///< dotted: "optim.lr"
  std::string type;     ///< type and range: "float > 0"
  std::string meaning;  ///< one line
  std::string unset;    ///< the meaning of null; "": the key does not accept null
  OnResume on_resume = OnResume::fixed;

  /// Sets the member from a value that is not null. If the value is refused, returns the reason and leaves the member
  /// unchanged.
  std::function<std::optional<Refusal>(const YamlNode&, Recipe&)> read;
  /// Sets the member to its default.
  std::function<void(Recipe&)> reset;
  /// Returns the member's canonical YAML, "null" if unset.
  std::function<std::string(const Recipe&)> print;
  /// Replaces an unset member by the value that null means. Empty if a recipe cannot hold that value.
  std::function<void(Recipe&)> fill;
  /// Makes the input paths in the member absolute, relative to `directory` (empty: the working directory). Empty if the
  /// member holds no paths.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor;
  Condition condition = {};
  /// Holds the default of earlier versions as YAML. Their checkpoints print it, so it is no error where the key has no
  /// effect. Empty: unchanged.
  std::string former_default = {};
  /// Holds as YAML the value for recipes that an earlier version without this key recorded. Empty: the default.
  std::string absent_in_record = {};
};

/// Holds all keys of a recipe, including those that a catalog adds.
class Keys {
 public:
  explicit Keys(Catalog catalog);
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  const Catalog& catalog() const { return catalog_; }
  /// Returns all keys in print order; a section's keys are adjacent.
  const std::vector<Key>& all() const { return all_; }
  /// Returns the names of all keys in the same order.
  const std::vector<std::string>& names() const { return names_; }
  /// Returns the key called `name`, or nullptr.
  const Key* find(std::string_view name) const;
  /// Returns whether `name` is a section: some key is called "name.…".
  bool is_section(std::string_view name) const;
  /// Returns a recipe with every key at its default.
  const Recipe& defaults() const { return defaults_; }

 private:
  Catalog catalog_;
  Recipe defaults_;
  std::vector<Key> all_;
  std::vector<std::string> names_;
};

/// Pairs a list of a catalog with the key that selects from it.
struct Selector {
  std::string_view key;
  const Choices* choices;
  const std::string* word;  ///< the word in a recipe
};
std::vector<Selector> selectors_of(const Recipe& recipe);

}  // namespace qrl::config

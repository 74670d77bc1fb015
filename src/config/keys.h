// Owns the list of what a recipe can say: one declaration a key, from which the reader, --help-all, the resolved recipe
// and the reference page are all made. The words of losses, corrections and modes, and the keys that belong to one of
// them, come from a catalog. Knows nothing of files or of rules between keys.
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

/// What another key must say for a key to have an effect.
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
  std::string unset;    ///< what null stands for; "": null is no value of this key
  OnResume on_resume = OnResume::fixed;

  /// Sets the member from a value that is not null, or says why not and leaves it alone.
  std::function<std::optional<Refusal>(const YamlNode&, Recipe&)> read;
  /// Sets the member to its default.
  std::function<void(Recipe&)> reset;
  /// The member's canonical YAML, "null" when unset.
  std::function<std::string(const Recipe&)> print;
  /// Replaces an unset member by what null stands for, where that is a value of the recipe; empty: nothing to do.
  std::function<void(Recipe&)> fill;
  /// Makes a member that holds paths of files to read absolute, relative ones being taken from `directory` (empty: the
  /// working directory); empty: the member holds none.
  std::function<void(Recipe&, const std::filesystem::path& directory)> anchor;
  Condition condition = {};
  /// The default of earlier versions, as YAML, which the recipes in their checkpoints spell out: where the key has no
  /// effect it is no fault. Empty: the same.
  std::string former_default = {};
  /// Holds, as YAML, the value for recipes that an earlier version without this key recorded. Empty: the default.
  std::string absent_in_record = {};
};

/// Every key of a recipe that may name what a catalog lists.
class Keys {
 public:
  explicit Keys(Catalog catalog);
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  const Catalog& catalog() const { return catalog_; }
  /// All keys, sections together, in the order in which they are printed.
  const std::vector<Key>& all() const { return all_; }
  /// Their names, in the same order.
  const std::vector<std::string>& names() const { return names_; }
  /// The key called `name`, or nullptr.
  const Key* find(std::string_view name) const;
  /// Whether `name` is a section: some key is called "name.…".
  bool is_section(std::string_view name) const;
  /// A recipe with every key at its default.
  const Recipe& defaults() const { return defaults_; }

 private:
  Catalog catalog_;
  Recipe defaults_;
  std::vector<Key> all_;
  std::vector<std::string> names_;
};

/// The words of `key` that select choices: each list of a catalog with the key that names one of it.
struct Selector {
  std::string_view key;
  const Choices* choices;
  const std::string* word;  ///< of a recipe
};
std::vector<Selector> selectors_of(const Recipe& recipe);

}  // namespace qrl::config

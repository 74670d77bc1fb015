// Owns the path from recipe files and --set arguments to a checked Recipe and back, generated from keys.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/keys.h"
#include "config/recipe.h"
#include "config/rules.h"

namespace qrl::config {

/// Records an overridden value of a mode.
struct ModeOverride {
  std::string key, mode_value, own_value;
  std::string place;  ///< "file:line" or "--set key" of the recipe's own value
};

struct LoadedRecipe {
  Recipe recipe;
  std::filesystem::path file;
  /// Canonical YAML of all keys, in declaration order; checkpoints store it.
  std::string resolved_yaml;
  /// The same with origins in comments (default, mode, file:line, --set); runs print and save it.
  std::string annotated_yaml;
  /// Maps keys not at their defaults to origins ("file:line", "--set key", "mode NAME").
  std::map<std::string, std::string> origins = {};
  /// In the mode's order; empty without one.
  std::vector<ModeOverride> mode_overrides = {};
};

/// Reads `file` with includes, applies `overrides` ("optim.lr=2e-6") in order, fills defaults and checks all rules.
/// Throws one input error with *all* faults: file:line (or "--set optim.lr"), expectation, finding and suggestion.
/// `complete` also requires a run's model and training data; `check recipe` leaves it off.
LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use = RecipeUse::training);

/// Reads a recipe from text; `name` replaces the file name, relative includes resolve against `directory`.
LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use = RecipeUse::training);

/// Reprints a recipe's texts after values were chosen.
void print_again(LoadedRecipe& loaded);

/// Returns why `value` (YAML, as in --set KEY=VALUE) is invalid: "expected float > 0, got -1", or "".
std::string value_fault(const Keys& keys, const std::string& key, const std::string& value);

/// Returns (dotted key, canonical value) in declaration order.
std::vector<std::pair<std::string, std::string>> resolved_values(const Recipe& recipe);

/// Names a key with different canonical values.
struct KeyChange {
  std::string key, before, after;
  bool may_be_allowed = false;  ///< OnResume::allow_change; else fixed
};
/// Lists changed keys in declaration order, without OnResume::free ones.
std::vector<KeyChange> changes_on_resume(const Recipe& before, const Recipe& after);
/// Lists changed keys among `names` (full keys, or sections that end with a point).
std::vector<KeyChange> changes_among(std::span<const std::string_view> names, const Recipe& before,
                                     const Recipe& after);
/// Returns whether the key holds paths to read, which may differ by host or day.
bool is_input_path(const Keys& keys, std::string_view key);

/// Returns --help-all, a line per key: "optim.lr  float > 0, default 1e-6  peak learning rate".
std::string keys_help(const Keys& keys);
/// Returns docs/reference/recipe-keys.md.
std::string keys_markdown(const Keys& keys);

}  // namespace qrl::config

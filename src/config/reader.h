// Owns the path from recipe files and --set arguments to a checked Recipe, and back to text. One declaration per key
// (keys.cpp) generates the reader, --help-all, the printed recipe and the reference page.
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

/// Records a mode's value that the recipe overrides.
struct ModeOverride {
  std::string key, mode_value, own_value;
  std::string place;  ///< "file:line" or "--set key" of the recipe's own value
};

struct LoadedRecipe {
  Recipe recipe;
  std::filesystem::path file;
  /// Holds canonical YAML of every key after defaults and overrides, in declaration order. Checkpoints store it.
  std::string resolved_yaml;
  /// Holds the same YAML with each value's origin in a comment (default, mode, file:line, --set). Runs print and save
  /// it.
  std::string annotated_yaml;
  /// Maps each key to its origin ("file:line", "--set key", "mode NAME"). Keys at their defaults are absent.
  std::map<std::string, std::string> origins = {};
  /// Lists overrides in the order of the mode's list; empty without a mode.
  std::vector<ModeOverride> mode_overrides = {};
};

/// Reads `file` with its includes, applies `overrides` ("optim.lr=2e-6") in order, fills defaults and checks every
/// rule. Throws one input error that lists *all* faults, each with file:line (or "--set optim.lr"), expectation,
/// finding and suggestion. `complete` also requires what a run needs (a model, training data); `check recipe` does not.
LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use = RecipeUse::training);

/// Reads a recipe from text. `name` replaces the file name in messages; relative includes are resolved against
/// `directory`.
LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use = RecipeUse::training);

/// Prints a recipe's texts again after some of its values were chosen.
void print_again(LoadedRecipe& loaded);

/// Returns why `value` (YAML, as in --set KEY=VALUE) is invalid for the key: "expected float > 0, got -1"; "" if it is
/// valid.
std::string value_fault(const Keys& keys, const std::string& key, const std::string& value);

/// Returns every key as (dotted key, canonical value), in declaration order.
std::vector<std::pair<std::string, std::string>> resolved_values(const Recipe& recipe);

/// Names a key whose canonical values differ between two recipes.
struct KeyChange {
  std::string key, before, after;
  bool may_be_allowed = false;  ///< OnResume::allow_change; else the key is fixed
};
/// Lists changed keys in declaration order, without those that a resumed run may change freely (OnResume::free).
std::vector<KeyChange> changes_on_resume(const Recipe& before, const Recipe& after);
/// Lists the keys among `names` (full keys, or sections that end with a point) whose values differ.
std::vector<KeyChange> changes_among(std::span<const std::string_view> names, const Recipe& before,
                                     const Recipe& after);
/// Returns whether the key holds files or folders to read, whose location may differ on another host or day.
bool is_input_path(const Keys& keys, std::string_view key);

/// Returns one line per key for --help-all: "optim.lr  float > 0, default 1e-6  peak learning rate".
std::string keys_help(const Keys& keys);
/// Returns the whole text of docs/reference/recipe-keys.md.
std::string keys_markdown(const Keys& keys);

}  // namespace qrl::config

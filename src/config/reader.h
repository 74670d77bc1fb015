// Owns the path from recipe files and --set arguments to a checked Recipe and back, generated from keys.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys/key.h"
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

}  // namespace qrl::config

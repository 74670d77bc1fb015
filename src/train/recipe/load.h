#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "train/recipe/catalog.h"
#include "train/recipe/rules.h"

namespace qrl::train {

struct LoadedRecipe {
  Recipe recipe;
  std::filesystem::path file;
  /// Canonical YAML of all keys, in declaration order. Checkpoints store it.
  std::string resolved_yaml;
  /// resolved_yaml with origins in comments (default, mode, file:line, --set).
  std::string annotated_yaml;
  /// "file:line", "--set key" or "mode NAME" of each key that is set.
  std::map<std::string, std::string> origins = {};
  /// Overridden values in the mode's order; empty without a mode.
  std::vector<config::ModeOverride> mode_overrides = {};
};

/// Reads `file` with includes, applies `overrides` ("optim.lr=2e-6") in order, fills defaults and checks all rules.
/// Throws one input error with *all* faults. A fault has its file:line (or "--set optim.lr"), the expected and the
/// given value, and a suggestion. `complete` also requires a run's model and training data.
LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use = RecipeUse::training);

/// Reads a recipe from text, like load_recipe. Errors give `name` as the file. Includes are relative to `directory`.
LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use = RecipeUse::training);

/// Updates resolved_yaml and annotated_yaml after `recipe` has changed.
void print_again(LoadedRecipe& loaded);

/// Returns why --set KEY=VALUE is invalid, such as "expected float > 0, got -1". Returns "" if it is valid.
std::string value_fault(const Keys& keys, const std::string& key, const std::string& value);

}  // namespace qrl::train

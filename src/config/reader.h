// Owns the way from recipe files and --set arguments to a checked Recipe, and back to text. One declaration per key
// (keys.cpp) feeds the reader, --help-all, the printed recipe and the reference page.
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

/// A value of the mode that the recipe says otherwise.
struct ModeOverride {
  std::string key, mode_value, own_value;
  std::string place;  ///< "file:line" or "--set key" of the recipe's own value
};

struct LoadedRecipe {
  Recipe recipe;
  std::filesystem::path file;
  /// Canonical YAML of every key after defaults and overrides, in declaration order: what checkpoints hold.
  std::string resolved_yaml;
  /// The same with each value's origin in a comment (default, mode, file:line, --set): what is printed and saved with
  /// the run.
  std::string annotated_yaml;
  /// Key → where its value comes from ("file:line", "--set key", "mode NAME"); a key at its default is not in it.
  std::map<std::string, std::string> origins = {};
  /// In the order of the mode's list; empty without a mode.
  std::vector<ModeOverride> mode_overrides = {};
};

/// Reads `file` (with its includes), applies `overrides` ("optim.lr=2e-6", in order), fills defaults and checks every
/// rule. Throws one input error whose text lists *all* faults, each with file:line (or "--set optim.lr"), expectation,
/// finding and suggestion. `complete`: also demand what a run needs (a model, training data); `check recipe` does not.
LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use = RecipeUse::training);

/// The same from text; `name` stands for the file in messages and relative includes are resolved against `directory`.
LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use = RecipeUse::training);

/// Prints a recipe's texts anew, after values of it were chosen.
void print_again(LoadedRecipe& loaded);

/// What keeps `value` (YAML, as behind --set KEY=) from being the key's: "expected float > 0, got -1"; "" for nothing.
std::string value_fault(const Keys& keys, const std::string& key, const std::string& value);

/// Every key of `resolved_yaml` as (dotted key, canonical value), in declaration order.
std::vector<std::pair<std::string, std::string>> resolved_values(const Recipe& recipe);

/// A key whose canonical values differ between two recipes.
struct KeyChange {
  std::string key, before, after;
  bool may_be_allowed = false;  ///< OnResume::allow_change; else the key is fixed
};
/// In declaration order, without the keys that a resumed run may change freely (OnResume::free).
std::vector<KeyChange> changes_on_resume(const Recipe& before, const Recipe& after);
/// The keys among `names` (whole keys, or sections that end with a point) whose values differ.
std::vector<KeyChange> changes_among(std::span<const std::string_view> names, const Recipe& before,
                                     const Recipe& after);
/// Whether a key of that name holds files or folders to read, which may lie elsewhere on another host or day.
bool is_input_path(const Keys& keys, std::string_view key);

/// "optim.lr  float > 0, default 1e-6  peak learning rate" per key: for --help-all.
std::string keys_help(const Keys& keys);
/// docs/reference/recipe-keys.md, whole.
std::string keys_markdown(const Keys& keys);

}  // namespace qrl::config

#include "train/recipe/load.h"

#include <algorithm>
#include <system_error>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "config/printer.h"
#include "train/recipe/automatic.h"

namespace qrl::train {

namespace {

namespace fs = std::filesystem;

std::string run_folder(const std::string& name, std::uint64_t seed) {
  std::string stem = fs::path(name).stem().string();
  const bool printable =
      std::all_of(stem.begin(), stem.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (stem.empty() || !printable || !base::is_utf8(stem)) stem = "recipe";
  return "runs/" + stem + "-seed" + std::to_string(seed);
}

}  // namespace

void print_again(LoadedRecipe& loaded) {
  const config::Keys& keys = *loaded.recipe.keys;
  loaded.resolved_yaml = config::resolved_yaml(keys, loaded.recipe);
  loaded.annotated_yaml = config::resolved_yaml(keys, loaded.recipe, &loaded.origins);
}

LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use) {
  const std::string name = config::shown_name(file.string());
  std::string bytes;
  std::error_code error;
  const fs::path of_run = file / "config.yaml";
  QRL_REQUIRE(!fs::exists(of_run, error), name, "a recipe file", "a run folder",
              "pass its recipe (" + config::shown_name(of_run.string()) + ") to resume");
  QRL_REQUIRE(!fs::is_directory(file, error), name, "a recipe file", "a folder",
              "set model.path to a model folder, or pass it to qrl-train generate");
  QRL_REQUIRE(config::read_bytes(file, bytes), name, "a readable recipe file", "a missing or unreadable file",
              "check the path");
  return parse_recipe(keys, bytes, file.string(), file.parent_path(), overrides, complete, use);
}

std::string value_fault(const Keys& keys, const std::string& key, const std::string& value) {
  Recipe recipe = keys.defaults();
  config::Reader reader(keys, recipe, "");
  reader.add_override(key + "=" + value);
  const std::string text = reader.errors().text();
  const std::string where = "--set " + key + ": ";
  return text.starts_with(where) ? text.substr(where.size()) : text;
}

LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use) {
  LoadedRecipe loaded{keys.defaults(), name, {}, {}, {}, {}};
  Recipe& recipe = loaded.recipe;
  config::Reader reader(keys, recipe, config::shown_name(name));
  reader.add_file(yaml, name, directory);
  const Recipe of_file = recipe;
  for (const std::string& argument : overrides) reader.add_override(argument);
  reader.drop_replaced();
  Recipe of_mode;
  if (!recipe.mode.empty()) reader.add_mode(*recipe.mode, of_mode);
  if (use == RecipeUse::record) {
    reader.add_absent();
    set_former_automatic(recipe, overrides.empty() ? Recipe(recipe) : of_file, reader.origins());
  }
  (void)choose_automatic(recipe);
  if (reader.is_whole()) check_rules(recipe, reader.origins(), complete, use, reader.errors());
  reader.errors().raise();
  reader.fill(Recipe(recipe));
  loaded.origins = reader.places();
  loaded.mode_overrides = reader.mode_overrides();
  TrainerRecipe& trainer = recipe.trainer;
  if (trainer.default_local_dir.empty()) trainer.default_local_dir = run_folder(name, trainer.seed);
  print_again(loaded);
  return loaded;
}

}  // namespace qrl::train

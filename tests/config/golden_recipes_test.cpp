// Tests that files with a mode resolve to the values of 0.2: papers' settings do not follow this program's defaults.
// scripts/golden/resolved_recipes.py wrote the values.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "support.h"
#include "support/files.h"
#include "train/recipe/catalog.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

std::string without_folder(std::string text) {
  const std::string folder = QRL_SOURCE_DIR "/";
  for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
    text.erase(at, folder.size());
  return text;
}

}  // namespace

TEST_CASE("recipes with a mode: resolve key for key as version 0.2 did") {
  const auto golden = nlohmann::json::parse(test::read_file(QRL_SOURCE_DIR "/tests/data/golden/resolved_recipes.json"));
  const fs::path folder = QRL_SOURCE_DIR "/recipes";
  const train::Keys decided(train::keys().catalog(), {.on_cpu = true, .on_gpu = true, .bitwise = true});
  const train::Keys& keys = GENERATE(false, true) ? decided : train::keys();
  std::set<std::string> with_mode;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().lexically_relative(folder).string();
    const auto loaded = train::load_recipe(keys, entry.path(), {}, false);
    if (loaded.recipe.mode.empty() || !golden.at("recipes").contains(name)) continue;  // a newer file has no golden
    with_mode.insert(name);
    const auto& own = golden.at("recipes").at(name);
    for (const auto& [key, usual] : golden.at("usual").items()) {
      INFO(name << ": " << key);
      const std::string expected = own.value(key, usual.get<std::string>());
      CHECK(without_folder(keys.find(key)->print(loaded.recipe)) == expected);
    }
  }
  CHECK(with_mode.size() == golden.at("recipes").size());
}

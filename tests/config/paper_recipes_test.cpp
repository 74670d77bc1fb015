// Tests the tables of recipes/papers/README.md against the recipes: every value that is not a default has a source.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "config/keys/key.h"
#include "config/reader.h"
#include "support.h"
#include "train/plan/catalog.h"

using namespace qrl;
using namespace qrl::test;
namespace fs = std::filesystem;

namespace {

const fs::path kFolder = QRL_SOURCE_DIR "/recipes/papers";

struct Section {
  std::string base;                         ///< recipe that a variant is based on; empty: none
  std::map<std::string, std::string> from;  ///< key → source
};

/// Returns the tables by recipe.
std::map<std::string, Section> sections() {
  std::map<std::string, Section> all;
  std::ifstream file(kFolder / "README.md");
  std::string line, recipe;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) recipe = line.substr(3);
    if (line.starts_with("As `")) all[recipe].base = line.substr(4, line.find('`', 4) - 4);
    if (!line.starts_with("| `")) continue;
    const std::size_t end = line.find('`', 3), bar = line.find("| ", end);
    all[recipe].from[line.substr(3, end - 3)] = line.substr(bar + 2, line.rfind(" |") - bar - 2);
  }
  return all;
}

config::LoadedRecipe load(const std::string& name) {
  return config::load_recipe(train::keys(), kFolder / name, {}, false);
}

std::set<std::string> set_keys(const config::LoadedRecipe& loaded) {
  std::set<std::string> keys;
  for (const auto& [key, origin] : loaded.origins) keys.insert(key);
  return keys;
}

std::set<std::string> names(const Section& section) {
  std::set<std::string> keys;
  for (const auto& [key, from] : section.from) keys.insert(key);
  return keys;
}

}  // namespace

TEST_CASE("every value of a paper's recipe that is no default has a source in the table of its recipe") {
  const std::map<std::string, Section> tables = sections();
  std::size_t num_recipes = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    REQUIRE(tables.count(name) == 1);
    const Section& table = tables.at(name);
    const config::LoadedRecipe loaded = load(name);
    std::set<std::string> wanted = set_keys(loaded);
    if (!table.base.empty()) {
      const config::Recipe base = load(table.base).recipe;
      std::erase_if(wanted, [&](const std::string& key) {
        const config::Key& one = *train::keys().find(key);
        return one.print(base) == one.print(loaded.recipe);
      });
    }
    CHECK(names(table) == wanted);
    for (const auto& [key, from] : table.from) {
      CAPTURE(key, from);
      const bool is_ours = from == "ours" || from.starts_with("ours: ");
      const std::string papers[] = {"FlashRL, ", "QuRL, ",       "QaRL, ", "AIS, ", "FP8-RL, ",
                                    "DAPO, ",    "DeepScaleR, ", "veRL, ", "QeRL, "};
      const bool is_paper = std::any_of(std::begin(papers), std::end(papers),
                                        [&](const std::string& paper) { return from.starts_with(paper); });
      CHECK((is_ours || is_paper));
    }
    ++num_recipes;
  }
  CHECK(num_recipes == tables.size());
}

// Fuzzes a recipe, with --set arguments after a line "--set": an accepted recipe reads back equal after it is printed.
#include <vector>

#include "target.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  std::string_view text = fuzz::text_of(data, num_bytes);
  std::vector<std::string> overrides;
  constexpr std::string_view kSet = "\n--set\n";
  if (const std::size_t at = text.find(kSet); at != std::string_view::npos) {
    overrides.emplace_back(text.substr(at + kSet.size()));
    text = text.substr(0, at + 1);
  }
  fuzz::accepts([&] {
    const train::LoadedRecipe loaded =
        train::parse_recipe(train::keys(), text, "f.yaml", "/nonexistent", overrides, false);
    const train::LoadedRecipe again = train::parse_recipe(train::keys(), loaded.resolved_yaml, "f.yaml", "", {}, false);
    fuzz::require(again.recipe == loaded.recipe, "a recipe reads back as it was");
  });
  return 0;
}

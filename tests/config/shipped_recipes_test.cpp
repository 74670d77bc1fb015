#include "config/shipped_recipes.h"

#include <fstream>

#include "base/error.h"
#include "config/reader.h"
#include "support/catch.h"
#include "support/files.h"
#include "train/plan/catalog.h"

using namespace qrl;

TEST_CASE("recipes:NAME is a recipe of the program, with or without .yaml, in folders too") {
  const std::string folder = QRL_SOURCE_DIR "/recipes/";
  CHECK(config::shipped_recipe("recipes:countdown_quickstart") == folder + "countdown_quickstart.yaml");
  CHECK(config::shipped_recipe("recipes:countdown_quickstart.yaml") == folder + "countdown_quickstart.yaml");
  CHECK(config::shipped_recipe("recipes:countdown/bf16") == folder + "countdown/bf16.yaml");
  CHECK(config::is_shipped_recipe("recipes:x"));
  CHECK_FALSE(config::is_shipped_recipe("recipes/x"));
}

TEST_CASE("a name that no recipe of the program has is refused with the nearest, and no path leaves the folder") {
  const auto error_of = [](const char* word) -> std::string {
    try {
      return config::shipped_recipe(word);
    } catch (const base::Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
  };
  CHECK_THAT(error_of("recipes:countdown_quickstrat"), Catch::Contains("did you mean recipes:countdown_quickstart?"));
  CHECK_THAT(error_of("recipes:"), Catch::Contains("recipes:countdown_quickstart is one"));
  CHECK_THAT(error_of("recipes:../tests/train/tiny"), Catch::Contains("expected a recipe in "));
}

TEST_CASE("a recipe includes recipes:NAME") {
  const test::TempDir dir;
  std::ofstream(dir / "own.yaml") << "include: recipes:countdown_quickstart\noptim: {lr: 0.25}\n";
  const config::LoadedRecipe own = config::load_recipe(train::keys(), dir / "own.yaml", {}, false);
  const config::LoadedRecipe shipped =
      config::load_recipe(train::keys(), QRL_SOURCE_DIR "/recipes/countdown_quickstart.yaml", {}, false);
  CHECK(own.recipe.optim.lr == 0.25);
  CHECK(own.recipe.data.train_batch_size == shipped.recipe.data.train_batch_size);
  CHECK(own.recipe.sft.steps == shipped.recipe.sft.steps);
  std::ofstream(dir / "wrong.yaml") << "include: recipes:nothing\n";
  CHECK_THROWS_AS(config::load_recipe(train::keys(), dir / "wrong.yaml", {}, false), base::Error);
}

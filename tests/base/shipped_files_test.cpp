#include "base/shipped_files.h"

#include <string>

#include "base/error.h"
#include "support/catch.h"

using namespace qrl;

TEST_CASE("shipped files: recipes:NAME finds a recipe with or without .yaml, also in folders") {
  const std::string folder = QRL_SOURCE_DIR "/recipes/";
  CHECK(base::shipped_recipe("recipes:countdown_quickstart") == folder + "countdown_quickstart.yaml");
  CHECK(base::shipped_recipe("recipes:countdown_quickstart.yaml") == folder + "countdown_quickstart.yaml");
  CHECK(base::shipped_recipe("recipes:countdown/bf16") == folder + "countdown/bf16.yaml");
  CHECK(base::is_shipped_recipe("recipes:x"));
  CHECK_FALSE(base::is_shipped_recipe("recipes/x"));
}

TEST_CASE("shipped files: the list has each recipe's first sentence, whole where a point is within it") {
  const std::string list = base::list_of_recipes();
  for (const char* line : {"recipes:countdown_quickstart ", " QuRL without its adaptive clip range: eq. 5.\n",
                           " QuRL's naive arm on GSM8K, eq. 3: the ratio to the INT8 sampler is clipped.\n",
                           " A small model learns countdown on two CPU cores: cold start from generated"})
    CHECK_THAT(list, Catch::Contains(line));
  CHECK_THAT(list, !Catch::Contains("Model, data and batch are in"));
}

TEST_CASE("shipped files: an unknown name is refused with the nearest one, and no path leaves the folder") {
  const auto error_of = [](const char* word) -> std::string {
    try {
      return base::shipped_recipe(word);
    } catch (const base::Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
  };
  CHECK_THAT(error_of("recipes:countdown_quickstrat"), Catch::Contains("did you mean recipes:countdown_quickstart?"));
  CHECK_THAT(error_of("recipes:"), Catch::Contains("qrl-train recipes: lists them"));
  CHECK_THAT(error_of("recipes:../tests/train/tiny"), Catch::Contains("expected a recipe in "));
}

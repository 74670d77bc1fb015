#include "reward/verifier.h"

#include "base/error.h"
#include "support/catch.h"

using namespace qrl;

TEST_CASE("a gold answer that a recipe's verifier cannot judge by: the error names reward.verifier and the others") {
  const auto refusal = [](config::VerifierName verifier, const char* gold) -> std::string {
    config::RewardRecipe recipe;
    recipe.verifier = verifier;
    try {
      reward::check_recipe_gold(*reward::make_verifier(recipe), recipe, gold, "train.jsonl:3");
    } catch (const base::Error& error) {
      CHECK(error.exit_code() == 2);
      return error.what();
    }
    return "";
  };
  const auto says = [&](config::VerifierName verifier, const char* gold, const std::string& expected,
                        const std::string& advice) {
    const std::string text = refusal(verifier, gold);
    INFO(text);
    CHECK(text.starts_with("train.jsonl:3: expected " + expected));
    CHECK(text.ends_with("; reward.verifier is " + advice));
  };
  using V = config::VerifierName;
  says(V::countdown, "85", "a countdown ground truth such as {\"numbers\":[3,8,12],\"target\":36}",
       "countdown: for data of another task set reward.verifier: math for answers in mathematics, sudoku for grids");
  says(V::math, "{\"numbers\":[3,4],\"target\":7}", "a gold answer in LaTeX or plain mathematics",
       "math: for data of another task set reward.verifier: countdown for numbers and a target, sudoku for grids");
  says(V::sudoku, "85", "a sudoku ground truth such as",
       "sudoku: for data of another task set reward.verifier: countdown for numbers and a target, math for answers in "
       "mathematics");
  CHECK(refusal(V::countdown, "{\"numbers\":[3,4],\"target\":7}").empty());
  CHECK(refusal(V::math, "85").empty());
}

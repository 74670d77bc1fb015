// Tests a loss, a correction and a task that the program lacks, added to its catalog and used in training.
#include <string>
#include <vector>

#include "config/printer.h"
#include "dist/collectives.h"
#include "learner/tensors/torch.h"  // before Catch2, to whose CHECK its own gives way
#include "support/catch.h"
#include "tasks/verifier.h"
#include "toys/correction/half.h"
#include "toys/loss/reinforce.h"
#include "toys/task/reverse.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/run/run.h"
#include "train/support.h"

using namespace qrl;

namespace {

/// Returns the program's keys with the toys' words.
const train::Keys& keys_with_toys() {
  static const train::Keys keys([] {
    train::Catalog catalog = train::catalog();
    catalog.losses.add(test::reinforce);
    catalog.corrections.add(test::half);
    catalog.generators.add(test::reverse_task.generator);
    catalog.verifiers.add(test::reverse_task.verifier);
    return catalog;
  }());
  return keys;
}

}  // namespace

TEST_CASE("catalog extension: an added loss and correction train for 3 steps") {
  const test::TempDir dir;
  const std::vector<std::string> settings = {"sft.steps=0",
                                             "eval.freq=0",
                                             "algorithm.name=reinforce",
                                             "algorithm.reinforce.scale=0.25",
                                             "rollout_correction.method=half",
                                             "trainer.total_training_steps=3",
                                             "trainer.default_local_dir=" + (dir / "run").string()};
  const train::LoadedRecipe loaded =
      train::load_recipe(keys_with_toys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true);
  CHECK(loaded.resolved_yaml.find("  reinforce:\n    scale: 0.25\n") != std::string::npos);
  const auto world = dist::make_solo();
  train::run(loaded, *world, {});
  const auto rows = test::stable_rows(dir / "run" / "metrics.jsonl");
  CHECK(rows.size() == 3);
  for (const nlohmann::json& row : rows) {
    CAPTURE(row);
    CHECK(row.at("reinforce/scale") == 0.25);
    CHECK(row.at("mismatch/capped_fraction") == 1);
  }
}

TEST_CASE("catalog extension: an added task trains for 3 steps, after a cold start on its demonstrations") {
  const test::TempDir dir;
  const std::vector<std::string> settings = {"trainer.default_local_dir=" + (dir / "run").string()};
  const train::LoadedRecipe loaded =
      train::load_recipe(keys_with_toys(), QRL_SOURCE_DIR "/tests/toys/task/reverse.yaml", settings, true);
  CHECK(loaded.resolved_yaml.find("    letters: 5\n") != std::string::npos);
  const auto world = dist::make_solo();
  train::run(loaded, *world, {});

  const auto rows = test::stable_rows(dir / "run" / "metrics.jsonl");
  CHECK(rows.size() >= 3);
  CHECK(rows.back().at("val/reverse/mean@2").is_number());

  // The task judged the rollouts: each reason is one of its own.
  const auto rollouts = test::stable_rows(dir / "run" / "rollouts" / "step_3.jsonl");
  for (const nlohmann::json& row : rollouts) {
    const std::string reason = row.at("reason"), word = row.at("ground_truth");
    CAPTURE(row);
    CHECK((reason == "correct" || reason == "wrong word" || reason == "no answer"));
    CHECK(row.at("prompt") == word + "\n");
  }
  CHECK(rollouts.size() == 16);
}

TEST_CASE("toy task's verifier: right and wrong words, letters in place, its own key") {
  train::Recipe recipe = keys_with_toys().defaults();
  recipe.reward.verifier = keys_with_toys().catalog().verifiers.select("reverse");
  const auto judged = [&](const std::string& response) {
    const auto verifier = tasks::make_verifier(train::verifier_options(recipe));
    const auto gold = verifier->prepare({"abcd"});
    const tasks::Sample sample{response, gold.get()};
    return verifier->judge(std::span(&sample, 1)).front();
  };
  CHECK(judged("<answer>dcba</answer>").outcome == tasks::Outcome::correct);
  CHECK(judged("<answer>DCBA</answer>").outcome == tasks::Outcome::wrong);
  CHECK(judged("<answer>dcab</answer>").scores == std::vector<double>{0, 1, 1, 0.5});
  CHECK(judged("dcba").outcome == tasks::Outcome::no_answer);
  recipe.own.set(test::reverse_task.verifier.params.front(), true);
  CHECK(judged("<answer>DCBA</answer>").outcome == tasks::Outcome::correct);
  const tasks::VerifierOptions options = train::verifier_options(recipe);
  CHECK_THROWS_WITH(
      tasks::check_gold(*tasks::make_verifier(options), options, {"7"}, "f:1"),
      Catch::Contains("a word of small letters") && Catch::Contains("countdown for numbers and a target"));
}

TEST_CASE("task keys: refused with another task's word") {
  const std::vector<std::string> settings = {"data.val_generator.letters=6"};
  CHECK_THROWS_WITH(train::load_recipe(keys_with_toys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true),
                    Catch::Contains("data.val_generator.task reverse with data.val_generator.letters, got countdown"));
}

TEST_CASE("catalog: unknown words are refused, with the known ones") {
  const std::vector<std::string> settings = {"algorithm.name=reinforce"};
  CHECK_THROWS_WITH(train::load_recipe(train::keys(), QRL_SOURCE_DIR "/tests/train/tiny.yaml", settings, true),
                    Catch::Contains("grpo | dr_grpo | dapo | gspo | tbpo") && !Catch::Contains("| reinforce"));
}

TEST_CASE("help: lists the words of the given catalog") {
  const std::string help = config::keys_help(keys_with_toys());
  CHECK(help.find("algorithm.reinforce.scale") != std::string::npos);
  CHECK(help.find(" | reinforce, default grpo") != std::string::npos);
  CHECK(help.find("only with algorithm.name reinforce") != std::string::npos);
  CHECK(help.find("only with data.train_generator.task reverse") != std::string::npos);
  CHECK(help.find("only with reward.verifier sudoku or reverse") != std::string::npos);
  CHECK(help.find(" | half, default tis") != std::string::npos);
}

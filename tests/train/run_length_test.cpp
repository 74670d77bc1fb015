// Tests how long a run is, what it keeps, and where its text ends: epochs, the best checkpoint, a time limit, stop
// strings.
#include <cctype>
#include <fstream>

#include "support/catch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/recipe/catalog.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kRlAlone = "--set sft.steps=0 ";

}  // namespace

TEST_CASE("total_epochs: gives the number of steps of its prompts") {
  const test::TempDir dir;
  // 64 prompts, 40 of them kept, 16 a step: 2 epochs are 5 steps.
  const std::string epochs = kRlAlone +
                             "--set trainer.total_epochs=2 --set trainer.total_training_steps=100 --set "
                             "data.train_max_samples=40 --set data.train_batch_size=16 --set actor.mini_batch_size=16 "
                             "--set data.val_max_samples=3 --set eval.n=1";
  const test::Outcome plan = test::run_command(test::tiny_command(dir / "run", epochs + " --dry-run"));
  CHECK(test::says(plan, "run         5 steps, 5 updates in all"));
  CHECK(test::says(plan, "held out    3 prompts"));
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", epochs));
  CHECK(test::says(outcome, "countdown mean@1"));
  REQUIRE(outcome.exit_code == 0);
  CHECK(fs::exists(dir / "run/checkpoints/step_5"));
  CHECK_FALSE(fs::exists(dir / "run/checkpoints/step_6"));
}

TEST_CASE("best evaluation: its checkpoint is written at once and stays") {
  train::Recipe recipe = train::keys().defaults();
  recipe.trainer.keep_best = "val/a/mean@8";
  train::RunState state;
  const auto note = [&](std::int64_t step, learner::Metrics row) {
    state.step = step;
    return train::note_if_best(recipe, row, state);
  };
  CHECK_FALSE(note(1, {{"reward/mean", 1}}));
  CHECK(note(2, {{"val/a/mean@8", 0.0}}));
  CHECK_FALSE(note(3, {{"val/a/mean@8", 0.0}}));  // the first of equals
  CHECK(note(4, {{"val/a/mean@8", 0.5}}));
  CHECK_FALSE(note(5, {{"val/a/mean@8", 0.25}}));
  CHECK(state.best_step == 4);
  CHECK(state.best_score == 0.5);
  recipe.trainer.keep_best = "val/a/truncated_fraction";
  state.best_step = -1;
  CHECK(note(6, {{"val/a/truncated_fraction", 0.5}}));
  CHECK_FALSE(note(7, {{"val/a/truncated_fraction", 1}}));
  CHECK(note(8, {{"val/a/truncated_fraction", 0.25}}));  // of these the lowest is the best

  const test::TempDir dir;
  const std::string keep = kRlAlone +
                           "--set trainer.total_training_steps=8 --set trainer.save_freq=0 --set eval.freq=3 --set "
                           "trainer.max_ckpt_to_keep=1 --set trainer.keep_best=val/countdown/";
  const test::Outcome wrong = test::run_command(test::tiny_command(dir / "run", keep + "mean@3"));
  CHECK(wrong.exit_code == 2);
  CHECK(test::says(
      wrong, "trainer.keep_best: expected one of val/countdown/mean@2, val/countdown/maj@2, val/countdown/pass@2"));
  // Without any right answer the first evaluation, of step 3, is the best.
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", keep + "mean@2"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::names_in(dir / "run/checkpoints") == std::vector<std::string>{"best", "step_3", "step_8"});
  CHECK(fs::read_symlink(dir / "run/checkpoints/best") == "step_3");
  // `best` is a checkpoint, and a longer run finds it.
  CHECK(test::run_command(QRL_BINARY_DIR "/qrl-train check safetensors " + (dir / "run/checkpoints/best").string())
            .exit_code == 0);
  const std::string longer = keep + "mean@2 --set trainer.total_training_steps=10";
  REQUIRE(test::run_command(test::tiny_command(dir / "run", longer)).exit_code == 0);
  CHECK(test::names_in(dir / "run/checkpoints") == std::vector<std::string>{"best", "step_10", "step_3"});
}

TEST_CASE("max_time: stops a run as a signal would, and the same command resumes") {
  const test::TempDir dir;
  const std::string steps = kRlAlone + "--set trainer.total_training_steps=100000 --set eval.freq=0";
  const test::Outcome stopped =
      test::run_command(test::tiny_command(dir / "run", steps + " --set trainer.max_time=2s"));
  CHECK(stopped.exit_code == 75);
  CHECK(test::says(stopped, "stopped by trainer.max_time; the checkpoint is in "));
  const test::Outcome again = test::run_command(test::tiny_command(dir / "run", steps + " --set trainer.max_time=2s"));
  CHECK(again.exit_code == 75);
  CHECK(test::says(again, "resuming from "));
}

TEST_CASE("rollout.stop: a stop string ends a response, which keeps it") {
  const test::TempDir dir;
  const auto rows_of = [&](const char* run) {
    std::vector<nlohmann::json> rows;
    std::ifstream in(dir / run / "rollouts/step_1.jsonl");
    for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  };
  const std::string one = kRlAlone + "--set trainer.total_training_steps=1 --set eval.freq=0";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", one)).exit_code == 0);
  const auto whole = rows_of("whole");
  REQUIRE_FALSE(whole.empty());
  // A new model writes arbitrary bytes: the stop string is the first digit or capital letter inside a response.
  std::string stop;
  for (const auto& row : whole) {
    const auto text = row.at("response").get<std::string>();
    for (std::size_t i = 1; i + 4 < text.size() && stop.empty(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (std::isdigit(c) != 0 || std::isupper(c) != 0) stop = text[i];
    }
  }
  REQUIRE_FALSE(stop.empty());
  const test::Outcome outcome =
      test::run_command(test::tiny_command(dir / "stopped", one + " --set rollout.stop='[\"" + stop + "\"]'"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const auto stopped = rows_of("stopped");
  REQUIRE(stopped.size() == whole.size());
  int num_cut = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto full = whole[i].at("response").get<std::string>(), cut = stopped[i].at("response").get<std::string>();
    const std::size_t at = full.find(stop);
    INFO(full);
    CHECK(cut == full.substr(0, at == std::string::npos ? at : at + stop.size()));
    num_cut += cut.size() < full.size() ? 1 : 0;
  }
  CHECK(num_cut > 0);
}

// Tests which settings may change when a run is resumed, its messages, and cold starts that runs share.
#include <fstream>

#include "support/catch.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kTwoMore = "--set trainer.total_training_steps=6 ";

}  // namespace

TEST_CASE("resume: evaluation, threads and memory may change without changing weights") {
  const test::TempDir dir;
  const std::string half = "--set trainer.total_training_steps=2";
  REQUIRE(test::run_command(test::tiny_command(dir / "run", half)).exit_code == 0);
  const test::Outcome outcome = test::run_command(test::tiny_command(
      dir / "run",
      "--set eval.n=4 --set eval.temperature=0.5 --set data.val_generator.size=6 --set trainer.threads=2 "
      "--set rollout.max_num_seqs=3 --set trainer.save_freq=2"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(test::says(outcome, "scores after step 2 cannot be compared with earlier ones"));
  CHECK(test::says(outcome, "eval.n 4 (it was made with 2)"));
  const std::size_t last = outcome.output.find("held-out countdown mean@4: ");  // the first score used other settings
  CHECK((last != std::string::npos && outcome.output.find(" -> ", last) == std::string::npos));
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const fs::path file = fs::path("checkpoints/step_4") / name;
    CHECK(test::read_file(dir / "run" / file) == test::read_file(test::finished_run() / file));
  }
}

TEST_CASE("refused resume: the message says what would work, and that works") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  const test::Outcome lr =
      test::run_command(test::tiny_command(run, kTwoMore + "--set optim.lr=1e-4 --set rollout.n=2"));
  CHECK(lr.exit_code == 2);
  CHECK(test::says(lr, "rollout.n 2 (it was made with 4), optim.lr 1.0e-4 (it was made with 0.001)"));
  CHECK(test::says(lr, "; --allow-change continues with the new values"));
  CHECK_FALSE(test::says(lr, "model.path"));

  const test::Outcome seed =
      test::run_command(test::tiny_command(run, kTwoMore + "--set model.dtype=bfloat16 --set optim.lr=1e-4"));
  CHECK(seed.exit_code == 2);
  CHECK(test::says(seed,
                   "set model.dtype back (fixed for a run), or start a new run from its weights: --set model.path="));
  CHECK(test::says(seed, "--allow-change continues with the new values of the other keys"));
  CHECK(test::run_command(test::tiny_command(run, kTwoMore + "--allow-change --set model.dtype=bfloat16")).exit_code ==
        2);
  // Checks the exact words of the advice.
  const test::Outcome anew = test::run_command(test::tiny_command(
      dir / "anew", "--set model.dtype=bfloat16 --set optim.lr=1e-4 --set model.path=" +
                        (run / "checkpoints/step_4").string() + " --set model.init.config=null --set sft.steps=0"));
  INFO(anew.output);
  CHECK(anew.exit_code == 0);

  const std::string allowed = kTwoMore + "--allow-change --set optim.lr=1e-4 --set rollout.n=2";
  const test::Outcome goes_on = test::run_command(test::tiny_command(run, allowed));
  INFO(goes_on.output);
  REQUIRE(goes_on.exit_code == 0);
  CHECK(test::says(goes_on, "changed after step 4 (--allow-change): optim.lr 0.001 -> 1.0e-4"));
  const auto rows = test::stable_rows(run / "metrics.jsonl");
  const nlohmann::json changes = {{"rollout.n", {"4", "2"}}, {"optim.lr", {"0.001", "1.0e-4"}}};
  CHECK(rows.at(5) == nlohmann::json{{"step", 4}, {"changed_on_resume", changes}});
  CHECK(rows.back().at("actor/lr") == 1e-4);
  // From here on the run has the new values.
  CHECK(test::run_command(test::tiny_command(run,
                                             "--set trainer.total_training_steps=7 --set optim.lr=1e-4 "
                                             "--set rollout.n=2"))
            .exit_code == 0);
}

TEST_CASE("recipe-key rows: state whether a resumed run may change them") {
  const auto rule_of = [](const std::string& name) { return train::keys().find(name)->on_resume; };
  for (const std::string name : {"optim.lr", "rollout.n", "data.train_files", "data.train_generator.max_number",
                                 "reward.profile", "algorithm.filter_groups.metric", "optim.lr_warmup_ratio"})
    CHECK(rule_of(name) == config::OnResume::allow_change);
  for (const std::string name : {"eval.n", "data.val_files", "trainer.threads", "rollout.max_num_seqs",
                                 "trainer.save_freq", "reward.max_error_fraction", "data.val_generator.max_number"})
    CHECK(rule_of(name) == config::OnResume::free);
  for (const std::string name : {"model.dtype", "trainer.seed", "quant.rollout.weights", "algorithm.name", "sft.lr",
                                 "optim.name", "optim.muon.momentum", "sft.demonstrations.max_number"})
    CHECK(rule_of(name) == config::OnResume::fixed);
}

TEST_CASE("cold start from another run: equals making it, in any mode") {
  const test::TempDir dir;
  const fs::path shared = test::finished_run() / "checkpoints/sft_12";
  const std::string from = "--set sft.from=" + shared.string() + " ";
  const test::Outcome taken = test::run_command(test::tiny_command(dir / "taken", from));
  INFO(taken.output);
  REQUIRE(taken.exit_code == 0);
  CHECK(test::says(taken, "using the cold start"));
  CHECK_FALSE(test::says(taken, "cold start 12/12"));
  CHECK(test::difference(test::finished_run(), dir / "taken") == "sft_metrics.jsonl");

  // Uses a KL term, which reads the cold start, and another format; restarts after the last step.
  const std::string other = from + "--set algorithm.kl_loss_coef=0.01 --set quant.rollout.weights=bf16 ";
  CHECK(
      test::run_command(test::tiny_command(dir / "other", other + "--set trainer.total_training_steps=1")).exit_code ==
      0);
  CHECK(test::run_command(test::tiny_command(dir / "other", other)).exit_code == 0);
  // Killed before its own first checkpoint: only the copy exists.
  fs::create_directories(dir / "again/checkpoints");
  fs::copy(shared, dir / "again/checkpoints/sft_12");
  CHECK(test::run_command(test::tiny_command(dir / "again", other)).exit_code == 0);

  const auto refuses = [&](const std::string& arguments, const std::string& what) {
    const test::Outcome outcome = test::run_command(test::tiny_command(dir / "refused", arguments));
    CHECK(outcome.exit_code == 2);
    CHECK(test::says(outcome, what));
  };
  refuses(from + "--set sft.lr=1e-3", "sft.lr 0.001 (it was made with 0.004)");
  refuses(from + "--set trainer.seed=1", "model.init.seed 1 (it was made with 0)");
  refuses(from + "--set sft.steps=0", "sft.steps or sft.epochs above 0 with sft.from");
  refuses("--set sft.from=" + (test::finished_run() / "checkpoints/step_4").string(), "a finished cold start");
  refuses("--set sft.from=/nowhere", "/nowhere");
}

TEST_CASE("tokens a second: the sum over all ranks") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", "", launcher));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  std::ifstream in(dir / "run/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("perf/tokens_per_s")) continue;
    // Every response of the step is counted, not only one rank's half.
    const double tokens = row.at("response_length/mean").get<double>() * 16;
    CHECK(row.at("perf/tokens_per_s").get<double>() * row.at("timing_s/gen").get<double>() > 0.9 * tokens);
  }
}

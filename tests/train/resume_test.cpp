// Tests which checkpoint a run resumes from, and that a checkpoint with changed bytes is refused.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "support/catch.h"
#include "train/files/checkpoint_folder.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMoreSteps = "--set trainer.total_training_steps=5";
constexpr const char* kWithKl = "--set algorithm.kl_loss_coef=0.1";

/// Checks that the run was refused with an input error whose text names `what`.
void check_refused(const test::Outcome& outcome, const std::string& what) {
  INFO(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.find(what) != std::string::npos);
}

void flip_weights(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "model.safetensors";
  test::flip_bit(file, (fs::file_size(file) - 1000) * 8 + 3);
}

std::string resume(const fs::path& checkpoint) { return " --resume " + checkpoint.string() + " "; }

/// Writes k1 where a recipe's text has the default estimator of the KL term.
void set_k1(std::string& text) {
  const std::string key = "kl_loss_type: ";
  const std::size_t at = text.find(key + "k3");
  REQUIRE(at != std::string::npos);
  text.replace(at + key.size(), 2, "k1");
}

}  // namespace

TEST_CASE("damaged checkpoint: named and set aside, and the one before it resumes with equal bits") {
  const test::TempDir dir;
  test::copy_of_finished_run(dir / "run");
  const fs::path file = dir / "run/checkpoints/step_4/optimizer.safetensors";
  test::flip_bit(file, (fs::file_size(file) - 7) * 8);
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.find("damaged checkpoint") != std::string::npos);
  CHECK(outcome.output.find("optimizer.safetensors") != std::string::npos);
  CHECK(fs::exists(dir / "run/checkpoints/step_4.damaged"));
  CHECK(test::difference(test::finished_run(), dir / "run") == "");
}

TEST_CASE("damaged cold start: refused as the KL reference, ignored by other runs") {
  const test::TempDir dir;
  REQUIRE(test::run_command(test::tiny_command(dir / "kl", kWithKl)).exit_code == 0);
  flip_weights(dir / "kl/checkpoints/sft_12");
  check_refused(test::run_command(test::tiny_command(dir / "kl", kWithKl + std::string(" ") + kMoreSteps)), "sft_12");
  fs::remove_all(dir / "kl/checkpoints/sft_12");
  check_refused(test::run_command(test::tiny_command(dir / "kl", kWithKl + std::string(" ") + kMoreSteps)), "sft_12");

  test::copy_of_finished_run(dir / "plain");
  flip_weights(dir / "plain/checkpoints/sft_12");
  CHECK(test::run_command(test::tiny_command(dir / "plain", kMoreSteps)).exit_code == 0);
}

TEST_CASE("damaged checkpoint: eval, generate and export refuse it by name") {
  const test::TempDir dir;
  const fs::path checkpoint = test::copy_of_finished_run(dir / "run") / "checkpoints/step_4";
  flip_weights(checkpoint);
  const std::string program = QRL_BINARY_DIR "/qrl-train ", recipe = QRL_SOURCE_DIR "/tests/train/tiny.yaml ";
  const std::string sampled = recipe + "--checkpoint " + checkpoint.string();
  check_refused(test::run_command(program + "eval " + sampled), "model.safetensors");
  check_refused(test::run_command(program + "generate " + sampled + " --prompt 1"), "model.safetensors");
  check_refused(test::run_command(program + "export " + checkpoint.string() + " --out " + (dir / "hf").string()),
                "model.safetensors");
  fs::remove(checkpoint / "manifest.json");
  check_refused(test::run_command(program + "eval " + sampled), "manifest.json");
  fs::copy(test::finished_run() / "checkpoints/step_4/manifest.json", checkpoint / "manifest.json");
  flip_weights(checkpoint);  // undamaged again
  fs::remove(checkpoint / "state.json");
  check_refused(test::run_command(program + "eval " + sampled), "state.json");
}

TEST_CASE("resume from PATH into another folder: equal bits, with the KL reference copied from beside PATH") {
  const test::TempDir dir;
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", kWithKl)).exit_code == 0);
  const fs::path given = dir / "whole/checkpoints/step_2";
  const std::string arguments = kWithKl + resume(given);
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "branch", arguments));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const fs::path file = fs::path("checkpoints/step_4") / name;
    CHECK(test::read_file(dir / "branch" / file) == test::read_file(dir / "whole" / file));
  }
  const auto whole = test::stable_rows(dir / "whole/metrics.jsonl"),
             branch = test::stable_rows(dir / "branch/metrics.jsonl");
  CHECK(branch == std::vector<nlohmann::json>(whole.end() - 2, whole.end()));

  // Interrupted before its first checkpoint, the same command starts again with the copy.
  fs::create_directories(dir / "again/checkpoints");
  fs::copy(dir / "branch/checkpoints/sft_12", dir / "again/checkpoints/sft_12");
  CHECK(test::run_command(test::tiny_command(dir / "again", arguments)).exit_code == 0);
  // Also resumes from the cold start itself.
  CHECK(test::run_command(test::tiny_command(dir / "cold", kWithKl + resume(dir / "whole/checkpoints/sft_12")))
            .exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "cold") == "sft_metrics.jsonl");

  flip_weights(dir / "whole/checkpoints/sft_12");
  check_refused(test::run_command(test::tiny_command(dir / "damaged", arguments)),
                "reference of algorithm.kl_loss_coef");
  fs::remove_all(dir / "whole/checkpoints/sft_12");
  check_refused(test::run_command(test::tiny_command(dir / "missing", arguments)), "sft_12");
}

TEST_CASE("resume from PATH in the run's own folder: damaged newer ones are set aside, sound newer ones refused") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  const std::string arguments = resume(run / "checkpoints/step_3/");
  check_refused(test::run_command(test::tiny_command(run, arguments)), "step_4");
  flip_weights(run / "checkpoints/step_4");
  const test::Outcome outcome = test::run_command(test::tiny_command(run, arguments));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(fs::exists(run / "checkpoints/step_4.damaged"));
  CHECK(test::difference(test::finished_run(), run) == "");
  check_refused(test::run_command(test::tiny_command(run, resume(test::finished_run() / "checkpoints/step_4"))),
                "step_4");
}

TEST_CASE("resume from PATH: refused without a sound checkpoint there, whatever the folder holds") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  for (const fs::path& folder : {run, dir / "empty"}) {
    check_refused(test::run_command(test::tiny_command(folder, resume("/nonexist"))), "/nonexist");
    check_refused(test::run_command(test::tiny_command(folder, resume(QRL_SOURCE_DIR))), "state.json");
  }
  flip_weights(run / "checkpoints/step_4");
  check_refused(test::run_command(test::tiny_command(run, resume(run / "checkpoints/step_4"))), "model.safetensors");
}

TEST_CASE("checkpoint of another version: refused by name if it lacks something") {
  const test::TempDir dir;
  const fs::path to = dir / "step_4";
  test::copy_edited(test::finished_run() / "checkpoints/step_4", to, "state.json", [](std::string& text) {
    const std::size_t at = text.find("\"uaq_scale\"");
    text.erase(at, text.find('\n', at) + 1 - at);
  });
  check_refused(test::run_command(test::tiny_command(dir / "run", resume(to))), "the entry uaq_scale");
}

TEST_CASE("checkpoint of an older program with estimator k1: read, and a resume names what to set") {
  const test::TempDir dir;
  const fs::path run = dir / "run", made = dir / "made";
  REQUIRE(test::run_command(test::tiny_command(made, kWithKl + std::string(" --set trainer.total_training_steps=2")))
              .exit_code == 0);
  fs::create_directories(run / "checkpoints");
  for (const char* name : {"sft_12", "step_2"})
    test::copy_edited(made / "checkpoints" / name, run / "checkpoints" / name, "recipe.yaml", set_k1);
  std::string config = test::read_file(made / "config.yaml");
  set_k1(config);
  std::ofstream(run / "config.yaml") << config;
  for (const char* rows : {"metrics.jsonl", "sft_metrics.jsonl"}) fs::copy(made / rows, run / rows);

  const std::string program = QRL_BINARY_DIR "/qrl-train ", checkpoint = (run / "checkpoints/step_2").string();
  const std::string sampled = (run / "config.yaml").string() + " --checkpoint " + checkpoint;
  for (const std::string& command : {"export " + checkpoint + " --out " + (dir / "hf").string(),
                                     "export " + checkpoint + " --quantized --out " + (dir / "quantized").string(),
                                     "generate " + checkpoint + " --prompt 1", "generate " + sampled + " --prompt 1",
                                     "eval " + sampled, "report " + run.string()}) {
    const test::Outcome outcome = test::run_command(program + command);
    INFO(command << "\n" << outcome.output);
    CHECK(outcome.exit_code == 0);
  }
  const auto again = [&](const std::string& arguments) {
    return test::run_command(test::tiny_command(run, kWithKl + std::string(" ") + kMoreSteps + " " + arguments));
  };
  check_refused(again("--set algorithm.kl_loss_type=k1"), "set k2, which has the gradient of the KL");
  check_refused(again("--set algorithm.kl_loss_type=k2"),
                "algorithm.kl_loss_type k2 (it was made with k1); --allow-change continues with the new values");
  const test::Outcome goes_on = again("--set algorithm.kl_loss_type=k2 --allow-change");
  CHECK(goes_on.exit_code == 0);
  CHECK(test::says(goes_on, "changed after step 2 (--allow-change): algorithm.kl_loss_type k1 -> k2"));
}

TEST_CASE("number of ranks: a change on resume is reported") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  const test::Outcome same = test::run_command(test::tiny_command(run));
  CHECK(same.output.find("ranks") == std::string::npos);
  const test::Outcome other = test::run_command(test::tiny_command(run, kMoreSteps, launcher));
  INFO(other.output);
  CHECK(other.exit_code == 0);
  CHECK(other.output.find("written by a run of 1 ranks and continues with 2") != std::string::npos);
}

TEST_CASE("unreadable checkpoints: end the start, and all stay unchanged") {
  const test::TempDir dir;
  const fs::path folder = test::copy_of_finished_run(dir / "run") / "checkpoints";
  const std::vector<std::string> before = test::names_in(folder);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int next = dup(STDIN_FILENO);
  close(next);
  const rlimit few{static_cast<rlim_t>(next) + 1, limit.rlim_max};  // one more, for the folder
  setrlimit(RLIMIT_NOFILE, &few);
  std::string message = "nothing thrown";
  try {
    (void)train::newest_sound_checkpoint(folder);
  } catch (const base::Error& error) {
    message = error.what();
    CHECK(error.exit_code() == 1);
  }
  setrlimit(RLIMIT_NOFILE, &limit);
  CHECK_THAT(message, Catch::Contains("Too many open files"));
  CHECK(test::names_in(folder) == before);
  CHECK(train::newest_sound_checkpoint(folder)->filename() == "step_4");
}

TEST_CASE("damaged checkpoint: earlier ones set aside stay when the same name is damaged again") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run"), newest = run / "checkpoints/step_4";
  fs::create_directory(newest.string() + ".damaged");
  std::ofstream(newest.string() + ".damaged/kept") << "x";
  test::flip_bit(newest / "state.json", 80);
  const test::Outcome outcome = test::run_command(test::tiny_command(run));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(fs::exists(newest.string() + ".damaged/kept"));
  CHECK(fs::exists(newest.string() + ".damaged_2/state.json"));
  CHECK(test::difference(test::finished_run(), run) == "");
}

TEST_CASE("copied checkpoints under other names: named and left alone, with equal bits") {
  for (const char* name : {"step_5", "step_03", "step_4"}) {
    CAPTURE(name);
    const test::TempDir dir;
    const fs::path run = test::copy_of_finished_run(dir / "run"), checkpoints = run / "checkpoints";
    fs::remove_all(checkpoints / "step_4");
    fs::copy(checkpoints / "step_3", checkpoints / name, fs::copy_options::recursive);
    const test::Outcome outcome = test::run_command(test::tiny_command(run));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    CHECK(test::says(outcome, std::string(name) + " is a copy of step_3"));
    CHECK(test::difference(test::finished_run(), run) == "");
    const bool is_in_the_way = name == std::string("step_4");
    CHECK(fs::exists(checkpoints / (is_in_the_way ? "step_4.copy" : name) / "state.json"));
    CHECK_FALSE(fs::exists(checkpoints / (std::string(name) + ".damaged")));
  }
}

TEST_CASE("pipe or folder in place of a run's file: ends the start with exit code 2 without waiting") {
  for (const char* name : {"sessions.jsonl", "log.txt", "metrics.jsonl", ".lock", "reward.log"}) {
    for (const bool is_pipe : {true, false}) {
      CAPTURE(name, is_pipe);
      const test::TempDir dir;
      const fs::path run = test::copy_of_finished_run(dir / "run");
      fs::remove(run / name);
      REQUIRE((is_pipe ? mkfifo((run / name).c_str(), 0600) : mkdir((run / name).c_str(), 0700)) == 0);
      const bool judged = name == std::string("reward.log");
      const test::Outcome outcome = test::run_command(
          test::tiny_command(run,
                             judged ? "--set reward.verifier=command --set reward.command=[python3," QRL_SOURCE_DIR
                                      "/recipes/rewards/countdown.py] --allow-change"
                                    : "",
                             "timeout 300"));
      INFO(outcome.output);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.output.find(name) != std::string::npos);
    }
  }
}

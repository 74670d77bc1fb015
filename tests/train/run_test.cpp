// Tests whole runs of the program: what they leave behind, and what they refuse.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <vector>

#include "state/folder.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

TEST_CASE("run result: printed on the last line, and again on another start") {
  const test::TempDir dir;
  const test::Outcome again = test::run_command(test::tiny_command(test::copy_of_finished_run(dir / "run")));
  CHECK(again.exit_code == 0);
  const std::string last = again.output.substr(again.output.rfind('\n', again.output.size() - 2) + 1);
  INFO(again.output);
  int end = 0;
  double before = -1, after = -1;
  CHECK(std::sscanf(last.c_str(), "held-out countdown mean@2: %lf -> %lf%n", &before, &after, &end) == 2);
  CHECK(last.size() == static_cast<std::size_t>(end) + 1);
  CHECK((before >= 0 && before <= 1 && after >= 0 && after <= 1));
}

TEST_CASE("metric rows: step 0 before training, then one per step") {
  const auto rows = test::stable_rows(test::finished_run() / "metrics.jsonl");
  REQUIRE(rows.size() == 5);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i].at("step") == i);
  CHECK(rows[0].contains("val/countdown/mean@2"));
  CHECK(rows[2].contains("val/countdown/mean@2"));
  CHECK_FALSE(rows[3].contains("val/countdown/mean@2"));
  for (const char* name :
       {"actor/pg_loss", "actor/grad_norm", "mismatch/k3_kl", "critic/score/mean", "response_length/mean"}) {
    CHECK(rows[1].contains(name));
  }
  CHECK(rows[4].at("training/policy_version") == 8);  // two updates a step
}

TEST_CASE("metric rows: learner tokens per second, and the share of the machine's peak") {
  std::ifstream file(test::finished_run() / "metrics.jsonl");
  int num_steps = 0;
  double first = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (!row.contains("perf/learner_tokens_per_s")) continue;
    ++num_steps;
    const auto value = [&](const char* name) { return row.at(name).get<double>(); };
    // 4 groups of 4: each prompt once, and 16 responses (all count, there is an entropy term).
    const double tokens = value("perf/learner_tokens_per_s") * value("timing_s/update_actor");
    const double expected = 4 * value("prompt_length/mean") + 16 * value("response_length/mean");
    CHECK(std::abs(tokens - expected) < 16.5);  // a sequence's last token predicts nothing, and may be left out
    CHECK(std::abs(tokens - std::round(tokens)) < 1e-6);
    // All steps have the same peak rate, and a token hardly changes its operations.
    const double share_per_rate = value("perf/mfu/actor") / value("perf/learner_tokens_per_s");
    CHECK(share_per_rate > 0);
    if (num_steps == 1) first = share_per_rate;
    CHECK(std::abs(share_per_rate / first - 1) < 0.2);
  }
  CHECK(num_steps == 4);
}

TEST_CASE("repeated run: equal bits, also on two threads, and another seed differs") {
  const test::TempDir dir;
  for (const std::string threads : {"1", "2"}) {
    CAPTURE(threads);
    const fs::path again = dir / ("again" + threads);
    REQUIRE(test::run_command(test::tiny_command(again, "--set trainer.threads=" + threads)).exit_code == 0);
    CHECK(test::difference(test::finished_run(), again).empty());
  }
  REQUIRE(test::run_command(test::tiny_command(dir / "other", "--set trainer.seed=1")).exit_code == 0);
  CHECK_FALSE(test::difference(test::finished_run(), dir / "other").empty());
}

TEST_CASE("run folder: settings that would lose or mix runs are refused with exit code 2") {
  const test::TempDir dir;
  test::copy_of_finished_run(dir / "run");
  const test::Outcome changed = test::run_command(test::tiny_command(dir / "run", "--set optim.lr=0.5"));
  CHECK(changed.exit_code == 2);
  CHECK(changed.output.find("optim.lr") != std::string::npos);
  CHECK(test::run_command(test::tiny_command(dir / "run", "--resume never")).exit_code == 2);
  const state::FolderLock lock(dir / "run");
  CHECK(test::run_command(test::tiny_command(dir / "run")).exit_code == 2);
}

TEST_CASE("finished run: more steps continue it") {
  const test::TempDir dir;
  test::copy_of_finished_run(dir / "run");
  REQUIRE(test::run_command(test::tiny_command(dir / "run", "--set trainer.total_training_steps=5")).exit_code == 0);
  const auto rows = test::stable_rows(dir / "run/metrics.jsonl");
  REQUIRE(rows.size() == 6);
  CHECK(rows[5].at("step") == 5);
}

TEST_CASE("sampler-learner gap: positive with int8, smaller with bf16, near zero with fp32") {
  const test::TempDir dir;
  const auto gap = [&](const std::string& format, const std::string& compute) {
    const fs::path run = dir / (format + compute);
    const test::Outcome outcome = test::run_command(
        test::tiny_command(run, "--set quant.rollout.weights=" + format + " --set model.dtype=" + compute +
                                    " --set trainer.total_training_steps=1"));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return test::stable_rows(run / "metrics.jsonl").at(1).at("mismatch/k3_kl").get<double>();
  };
  const double int8 = gap("int8", "float32"), bf16 = gap("bf16", "bfloat16"), fp32 = gap("fp32", "float32");
  CHECK(int8 > 1e-7);
  CHECK(bf16 <= 1e-3);
  CHECK(std::fabs(fp32) < 1e-9);
  CHECK(bf16 > fp32);
}

TEST_CASE("learner on the sampler's tensors: small gap with int8, and equal bits after a kill") {
  const test::TempDir dir;
  const auto run = [&](const std::string& name, const std::string& forward) {
    const std::string settings =
        "--set model.dtype=bfloat16 --set quant.rollout.kv_cache=fp32 --set quant.learner.forward=" + forward;
    return test::tiny_command(dir / name, settings);
  };
  const auto gap = [&](const std::string& forward) {
    const test::Outcome outcome = test::run_command(run(forward, forward));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return test::stable_rows(dir / forward / "metrics.jsonl").at(1).at("mismatch/k3_kl").get<double>();
  };
  const double plain = gap("bf16");
  CHECK(plain > 1e-6);
  CHECK(gap("fake_quant") < plain);
  CHECK(gap("low_bit") < 1e-2 * plain);

  const pid_t pid = test::start_command(run("killed", "low_bit"), dir / "log");
  while (!fs::exists(dir / "killed/checkpoints/step_2") && kill(pid, 0) == 0) usleep(2'000);
  kill(-pid, SIGKILL);
  test::wait_for(pid);
  REQUIRE(test::run_command(run("killed", "low_bit")).exit_code == 0);
  CHECK(test::difference(dir / "low_bit", dir / "killed") == "");
}

TEST_CASE("eval of a checkpoint: equals the run's figures, and export keeps the weights") {
  const test::TempDir dir;
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", test::kTelling));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const fs::path checkpoint = dir / "run/checkpoints/step_1";
  const nlohmann::json in_run = test::held_out_figures(test::stable_rows(dir / "run/metrics.jsonl").at(1));
  const double length = in_run.at("val/countdown/response_length/mean").get<double>();
  const double truncated = in_run.at("val/countdown/truncated_fraction").get<double>();
  CHECK((length > 1 && length < 24 && truncated > 0 && truncated < 1));  // else the comparison is empty
  const std::string recipe = QRL_SOURCE_DIR "/tests/train/tiny.yaml " + test::kTelling;
  const test::Outcome eval =
      test::run_command(QRL_BINARY_DIR "/qrl-train eval " + recipe + " --checkpoint " + checkpoint.string());
  INFO(eval.output);
  REQUIRE(eval.exit_code == 0);
  double printed = -1;
  const std::size_t at = eval.output.find("val/countdown/response_length/mean: ");
  REQUIRE(at != std::string::npos);
  std::sscanf(eval.output.c_str() + at, "val/countdown/response_length/mean: %lf", &printed);
  CHECK(test::close(printed, length, 0, 5e-6));
  CHECK(eval.output.find("data source  prompts  maj@16 ") != std::string::npos);

  // With --out, the same figures as JSON and every response with its verdict, whatever the number of ranks.
  const auto evaluate = [&](const std::string& launcher, const std::string& name, const std::string& settings = "") {
    const std::string command = launcher + QRL_BINARY_DIR "/qrl-train eval " + recipe + settings + " --checkpoint ";
    return test::run_command(command + checkpoint.string() + " --out " + (dir / name).string());
  };
  const auto results = [&](const std::string& name) {
    return nlohmann::json::parse(test::read_file(dir / name / "results.json"));
  };
  REQUIRE(evaluate("", "alone").exit_code == 0);
  CHECK(results("alone")["metrics"] == in_run);
  CHECK(results("alone")["sampling"]["n"] == 16);
  CHECK(results("alone")["quant"] == nlohmann::json{{"weights", "int8"}, {"kv_cache", "bf16"}});
  REQUIRE(evaluate("", "int4", "--set quant.rollout.weights=int4").exit_code == 0);
  CHECK(results("int4")["quant"] == nlohmann::json{{"weights", "int4"}, {"kv_cache", "bf16"}});
  CHECK(results("int4")["metrics"] != in_run);  // the figures differ between formats
  std::istringstream rows(test::read_file(dir / "alone/responses.jsonl"));
  double score = 0;
  int num_rows = 0;
  for (std::string line; std::getline(rows, line); ++num_rows) {
    const auto row = nlohmann::json::parse(line);
    score += row["reason"] == "correct" ? 1 : 0;
    CHECK(row["sample"] == num_rows % 16);
    CHECK_FALSE(row.contains("advantage"));
  }
  CHECK(num_rows == 8 * 16);
  CHECK(test::close(score / num_rows, in_run.at("val/countdown/mean@16").get<double>(), 1e-12, 0));
  CHECK(evaluate("", "alone").exit_code == 2);  // nothing is overwritten
  REQUIRE(evaluate("", "ranks", " --ranks 2").exit_code == 0);
  CHECK(test::read_file(dir / "ranks/responses.jsonl") == test::read_file(dir / "alone/responses.jsonl"));
  CHECK(test::read_file(dir / "ranks/results.json") == test::read_file(dir / "alone/results.json"));
  if (const std::string launcher = test::mpirun(2); !launcher.empty()) {
    REQUIRE(evaluate(launcher + " ", "two").exit_code == 0);
    CHECK(test::read_file(dir / "two/responses.jsonl") == test::read_file(dir / "alone/responses.jsonl"));
    CHECK(test::read_file(dir / "two/results.json") == test::read_file(dir / "alone/results.json"));
  }
  const fs::path logits = dir / "logits.safetensors";
  REQUIRE(test::run_command(QRL_BINARY_DIR "/qrl-train export " + checkpoint.string() + " --out " +
                            (dir / "hf").string() + " --logits " + logits.string())
              .exit_code == 0);
  CHECK(
      state::SafetensorsFile(logits).entry("logits_7").shape ==
      base::Shape{7, state::SafetensorsFile(dir / "hf/model.safetensors").entry("model.embed_tokens.weight").shape[0]});
  CHECK(test::read_file(dir / "hf/model.safetensors") == test::read_file(checkpoint / "model.safetensors"));
  const std::string written = (dir / "hf2").string();  // its files are not overwritten either
  CHECK(test::run_command(QRL_BINARY_DIR "/qrl-train export " + checkpoint.string() + " --out " + written +
                          " --logits " + written + "/model.safetensors")
            .exit_code == 2);
  CHECK(test::run_command(QRL_BINARY_DIR "/qrl-train generate " + recipe + " --checkpoint " + (dir / "hf").string() +
                          " --prompt '1 2 3 = 6\n'")
            .exit_code == 0);
}

TEST_CASE("two ranks: cold start bits, first step's tokens and scores equal one rank's, gradients up to rounding") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(test::tiny_command(dir / "run", "", launcher));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.find_first_of("\r\x1b") == std::string::npos);  // piped: plain lines
  const fs::path cold = "checkpoints/sft_12/model.safetensors";
  CHECK(test::read_file(dir / "run" / cold) == test::read_file(test::finished_run() / cold));
  CHECK(test::read_file(dir / "run/rollouts/step_1.jsonl") ==
        test::read_file(test::finished_run() / "rollouts/step_1.jsonl"));
  const auto two = test::stable_rows(dir / "run/metrics.jsonl"),
             one = test::stable_rows(test::finished_run() / "metrics.jsonl");
  CHECK(two.at(0) == one.at(0));
  CHECK(two.at(1).at("critic/score/mean") == one.at(1).at("critic/score/mean"));
  CHECK(test::close(two.at(1).at("actor/pg_loss").get<double>(), one.at(1).at("actor/pg_loss").get<double>(), 1e-6, 0));
  CHECK(test::close(two.at(1).at("actor/grad_norm").get<double>(), one.at(1).at("actor/grad_norm").get<double>(), 0,
                    1e-5));
}

namespace {

/// Starts two ranks, calls `end` with the job's process id after step 2, and compares what a resumed job leaves with an
/// uninterrupted one. Returns the ended job's exit code and output.
test::Outcome end_and_resume(const std::string& arguments, const std::string& launcher,
                             const std::function<void(pid_t)>& end) {
  const test::TempDir dir;
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", arguments, launcher)).exit_code == 0);
  const pid_t pid = test::start_command("env " + test::tiny_command(dir / "run", arguments, launcher), dir / "log");
  while (!fs::exists(dir / "run/checkpoints/step_2") && kill(pid, 0) == 0) usleep(2'000);
  end(pid);
  test::Outcome ended;
  ended.exit_code = test::wait_for(pid);
  ended.output = test::read_file(dir / "log");
  test::Outcome last;
  for (int attempt = 0; attempt < 1200; ++attempt) {  // the killed job's ranks release the folder's lock a moment later
    last = test::run_command(test::tiny_command(dir / "run", arguments, launcher));
    if (last.exit_code != 2) break;
    usleep(100'000);
  }
  INFO(last.output);
  REQUIRE(last.exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "run") == "");
  return ended;
}

}  // namespace

TEST_CASE("two ranks: killed and resumed, equal to two ranks never stopped") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  end_and_resume("", launcher, [](pid_t job) { kill(-job, SIGKILL); });
}

TEST_CASE("two ranks of --ranks: first process or a rank killed and resumed, equal to two ranks never stopped") {
  for (const bool kills_first : {true, false}) {
    CAPTURE(kills_first);
    std::size_t num_ranks = 0;
    const test::Outcome ended = end_and_resume("--ranks 2", "", [&](pid_t job) {
      const std::vector<pid_t> ranks = test::children_of(job);
      num_ranks = ranks.size();
      kill(kills_first || num_ranks < 2 ? job : ranks[1], SIGKILL);
      for (const pid_t rank : ranks) {
        for (int tries = 0; tries < 60'000 && kill(rank, 0) == 0; ++tries) usleep(2'000);
      }
    });
    if (num_ranks == 0) return test::skip("no /proc/PID/task/PID/children");
    INFO(ended.output);
    CHECK(num_ranks == 2);
    CHECK(ended.exit_code == 128 + SIGKILL);
    const bool names_rank =
        ended.output.find("qrl-train: rank 1 was ended by signal 9 (Killed): the job ends here") != std::string::npos;
    CHECK(names_rank == !kills_first);
    CHECK(ended.output.find("step 4/4") == std::string::npos);  // no rank went on alone
  }
}

// Tests the responses that `report --samples` prints.
#include "report/sample_text.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;
using report::SampleChoice;

namespace {

/// Makes a run with rollouts of steps 1, 2 and 5: two prompts with three responses each, scores 0, 0.5, 1; 1 in step 2.
report::RunFiles run_with_samples(const fs::path& dir) {
  fs::create_directories(dir / "rollouts");
  std::ofstream(dir / "metrics.jsonl") << "{\"step\":1,\"critic/rewards/mean\":0.5}\n";
  for (const int step : {1, 2, 5}) {
    std::ofstream file(dir / ("rollouts/step_" + std::to_string(step) + ".jsonl"));
    for (int prompt = 0; prompt < 2; ++prompt) {
      for (int sample = 0; sample < 3; ++sample) {
        nlohmann::json row = {{"prompt_id", prompt}, {"sample", sample}, {"ground_truth", "7"}, {"reason", "why"}};
        row["prompt"] = "prompt " + std::to_string(prompt);
        row["response"] = "step " + std::to_string(step) + "\nsecond line";
        row["score"] = step == 2 ? 1.0 : sample * 0.5;
        row["reward"] = sample * 0.5 - 1;
        row["advantage"] = 0.25;
        row["response_tokens"] = 4;
        row["stop"] = sample == 0 ? "length" : "eos";
        row["extracted"] = "7";
        row["score_parts"] = {{"format", 1.0}};
        file << row << "\n";
      }
    }
  }
  return report::read_run(dir);
}

/// Returns the lines that begin a response, up to the score.
std::string heads(const std::string& text) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(". prompt ") != std::string::npos) found += line.substr(0, line.find(", reward")) + "; ";
  }
  return found;
}

std::string error_of(const report::RunFiles& run, const SampleChoice& choice) {
  try {
    (void)report::samples_text(run, choice);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("samples: of an environment, each turn and what was observed after it") {
  const test::TempDir dir;
  fs::create_directories(dir / "run/rollouts");
  std::ofstream(dir / "run/metrics.jsonl") << "{\"step\":1}\n";
  std::ofstream(dir / "run/rollouts/step_1.jsonl")
      << R"({"prompt_id":0,"prompt":"p","response":"5 low 6","score":1,"turns":[{"drawn":"5","observation":" low\n"},)"
      << R"({"drawn":"6","observation":null}]})"
      << "\n";
  const std::string text = report::samples_text(report::read_run(dir / "run"), {.count = 1});
  CHECK_THAT(text, Catch::Contains("turn 1   | 5\nobserved |  low\n") && Catch::Contains("turn 2   | 6\n"));
  CHECK(text.find("response ") == std::string::npos);
}

TEST_CASE("samples: of the newest or a given step, with prompt, answer, score and reason") {
  const test::TempDir dir;
  const report::RunFiles run = run_with_samples(dir / "run");
  SampleChoice choice;
  choice.count = 1;
  CHECK(report::samples_text(run, choice) ==
        (dir / "run").string() +
            ", step 5: 1 of 6 responses\n\n"
            "1. prompt 1 of 2, sample 0, score 0, reward -1, advantage 0.25, 4 tokens, truncated\n"
            "prompt   | prompt 0\n"
            "response | step 5\n"
            "         | second line\n"
            "answer   | 7\n"
            "verdict  | why; extracted: 7; format 1\n");
  choice.step = 2;
  CHECK(report::samples_text(run, choice).find("response | step 2\n") != std::string::npos);
}

TEST_CASE("samples: spread over the file or by score, preferring different prompts among equal scores") {
  const test::TempDir dir;
  const report::RunFiles run = run_with_samples(dir / "run");
  const auto shown = [&](std::size_t count, SampleChoice::Order order, std::optional<std::int64_t> step = {}) {
    SampleChoice choice;
    choice.step = step;
    choice.count = count;
    choice.order = order;
    return heads(report::samples_text(run, choice));
  };
  using Order = SampleChoice::Order;
  CHECK(shown(2, Order::spread) == "1. prompt 1 of 2, sample 0, score 0; 2. prompt 2 of 2, sample 0, score 0; ");
  CHECK(shown(3, Order::best) ==
        "1. prompt 1 of 2, sample 2, score 1; 2. prompt 2 of 2, sample 2, score 1; 3. prompt 1 of 2, sample 1, "
        "score 0.5; ");
  CHECK(shown(3, Order::worst) ==
        "1. prompt 1 of 2, sample 0, score 0; 2. prompt 2 of 2, sample 0, score 0; 3. prompt 1 of 2, sample 1, "
        "score 0.5; ");
  CHECK(shown(2, Order::best, 2) == "1. prompt 1 of 2, sample 0, score 1; 2. prompt 2 of 2, sample 0, score 1; ");
  CHECK(shown(99, Order::spread).find("6. prompt 2 of 2, sample 2") != std::string::npos);
}

TEST_CASE("samples: a missing step or empty folder is an error that lists the steps") {
  const test::TempDir dir;
  const report::RunFiles run = run_with_samples(dir / "run");
  SampleChoice choice;
  choice.count = 1;
  choice.step = 3;
  CHECK(error_of(run, choice)
            .find("--step: expected a step with responses in " + (dir / "run/rollouts").string() +
                  ": 1, 2, 5, got 3") != std::string::npos);
  choice.held_out = true;
  CHECK(error_of(run, choice).find("eval.dump") != std::string::npos);
  choice.held_out = false;
  fs::remove_all(dir / "run/rollouts");
  CHECK(error_of(run, choice).find("trainer.rollout_dump") != std::string::npos);
}

TEST_CASE("samples: a response cannot control the terminal or imitate the report's text") {
  const test::TempDir dir;
  fs::create_directories(dir / "run/rollouts");
  std::ofstream(dir / "run/metrics.jsonl") << "{\"step\":1,\"x\":1}\n";
  std::ofstream(dir / "run/rollouts/step_1.jsonl")
      << "{\"response\":\"\\u001b[2J\\u202e\\n1. prompt 1 of 1, score 1\"}\n{\"response\":7}\n{\"cut";
  SampleChoice choice;
  choice.count = 9;
  const std::string text = report::samples_text(report::read_run(dir / "run"), choice);
  INFO(text);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  CHECK(text.find("\n         | 1. prompt 1 of 1, score 1\n") != std::string::npos);
}

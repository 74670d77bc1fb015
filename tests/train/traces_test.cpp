// Tests what a run leaves for its users: times, sessions, TensorBoard's files, held-out answers.
#include <algorithm>
#include <fstream>

#include "report/run_files.h"
#include "report/tfevents.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

/// Returns the bytes of the one events file of a folder.
std::string events_in(const fs::path& dir) {
  std::string bytes;
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    bytes = test::read_file(entry.path());
    ++num_files;
  }
  CHECK(num_files == 1);
  return bytes;
}

/// Returns the contents of TensorBoard's file for these rows, with the texts of `run_dir` behind their steps.
std::string events_of(const fs::path& metrics_file, const fs::path& run_dir = {}) {
  const auto rows = report::read_rows(metrics_file).rows;
  REQUIRE(!rows.empty());
  std::string bytes;
  for (const report::Row& row : rows) {
    const double unix_s = report::value_of(row.metrics, "timing_s/unix");
    bytes += report::step_record(unix_s, row.step, row.metrics);
    if (run_dir.empty()) continue;
    for (const report::EventText& text : report::step_texts(run_dir, row.step, &row == &rows.front()))
      bytes += report::text_record(unix_s, row.step, text);
  }
  return bytes;
}

std::size_t num_lines(const fs::path& file) {
  const std::string text = test::read_file(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("run files: hold each row's time, a session, TensorBoard's files and held-out answers") {
  const fs::path& run = test::finished_run();
  const report::RunFiles files = report::read_run(run);
  double before = 1.7e9;
  for (const report::Row& row : files.rows.rows) {
    const double unix_s = report::value_of(row.metrics, "timing_s/unix");
    CHECK(unix_s >= before);
    before = unix_s;
  }
  REQUIRE(files.sessions.size() == 1);
  CHECK(files.sessions[0].first_step == 1);
  CHECK(files.sessions[0].last_step == 4);
  CHECK(files.sessions[0].ended == "done");
  CHECK(files.sessions[0].ended_unix_s >= before);
  CHECK(files.sessions[0].program.starts_with("qrl-train "));
  CHECK(files.sessions[0].ranks == 1);
  CHECK(events_in(run / "tensorboard").ends_with(events_of(run / "metrics.jsonl", run)));
  CHECK(events_in(run / "tensorboard/sft").ends_with(events_of(run / "sft_metrics.jsonl")));
  CHECK(num_lines(run / "validation/step_0.jsonl") == 8 * 2);  // all 8 prompts, 2 samples each
  CHECK(fs::exists(run / "validation/step_4.jsonl"));
}

TEST_CASE("resume: adds a session and rewrites TensorBoard's file, no step twice") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  const std::string more = " --set trainer.total_training_steps=5 --set eval.dump=1";
  fs::remove_all(run / "checkpoints/step_4");  // so that step 4 is repeated
  const test::Outcome outcome = test::run_command(test::tiny_command(run, more));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  CHECK(events_in(run / "tensorboard").ends_with(events_of(run / "metrics.jsonl", run)));
  CHECK(report::read_rows(run / "metrics.jsonl").rows.back().step == 5);
  const auto sessions = report::read_sessions(run / "sessions.jsonl");
  REQUIRE(sessions.size() == 2);
  CHECK(sessions[1].first_step == 4);
  CHECK(sessions[1].last_step == 5);
  CHECK(num_lines(run / "validation/step_5.jsonl") == 2);
  CHECK(num_lines(run / "validation/step_0.jsonl") == 16);
}

TEST_CASE("run files: no TensorBoard file or answers unless enabled, and an error ends the session") {
  const test::TempDir dir;
  const test::Outcome outcome = test::run_command(
      test::tiny_command(dir / "run",
                         "--set trainer.tensorboard=false --set eval.dump=0 --set sft.steps=0 --set optim.lr=1e15 "
                         "--set trainer.max_non_finite_steps=1"));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 3);
  CHECK_FALSE(fs::exists(dir / "run/tensorboard"));
  CHECK_FALSE(fs::exists(dir / "run/validation"));
  const auto sessions = report::read_sessions(dir / "run/sessions.jsonl");
  REQUIRE(sessions.size() == 1);
  CHECK(sessions[0].ended == "an error (log.txt has it)");
}

TEST_CASE("report: shows a run as text and page, and refuses other folders with exit code 2") {
  const test::TempDir dir;
  const std::string program = QRL_BINARY_DIR "/qrl-train report ";
  const test::Outcome text = test::run_command(program + test::finished_run().string());
  CHECK(text.exit_code == 0);
  CHECK(text.output.find(": 5 rows, done\n") != std::string::npos);
  CHECK(text.output.find("critic/rewards/mean") != std::string::npos);
  const test::Outcome samples = test::run_command(program + test::finished_run().string() + " --samples 2 --best");
  CHECK(samples.exit_code == 0);
  CHECK(samples.output.find(", step 4: 2 of 16 responses, highest score first\n\n1. prompt ") != std::string::npos);
  CHECK(samples.output.find("critic/rewards/mean") == std::string::npos);
  std::ofstream(dir / "page.html") << "<!doctype html>earlier";
  std::ofstream(dir / "rows.jsonl") << "{}";
  CHECK(test::run_command(program + test::finished_run().string() + " --out " + (dir / "rows.jsonl").string())
            .exit_code == 2);
  CHECK(test::read_file(dir / "rows.jsonl") == "{}");
  CHECK(
      test::run_command(program + test::finished_run().string() + " --out " + (dir / "page.html").string()).exit_code ==
      0);
  CHECK(test::read_file(dir / "page.html").starts_with("<!doctype html>"));
  CHECK(test::run_command(program + (dir / "").string()).exit_code == 2);
  CHECK(test::run_command(program + (dir / "none").string() + " --out " + (dir / "page.html").string()).exit_code == 2);
  CHECK(test::read_file(dir / "page.html").starts_with("<!doctype html>"));
  CHECK(test::run_command(program + test::finished_run().string() + " --group seed").exit_code == 2);
  CHECK(test::run_command(program).exit_code == 2);
}

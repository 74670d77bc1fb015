// Tests what is read from a run folder, complete or damaged.
#include "report/run_files.h"

#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "report/samples.h"
#include "state/folder.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
namespace fs = std::filesystem;

TEST_CASE("run files: rows are read up to a cut line, null as NaN, and other lines are counted") {
  const test::TempDir dir;
  std::ofstream(dir / "m.jsonl") << "{\"step\":0,\"a\":1.5,\"b\":null}\nnot json\n{\"no_step\":1}\n\n"
                                    "{\"step\":1,\"changed_on_resume\":{\"optim.lr\":[\"0.1\",\"0.2\"]}}\n"
                                    "{\"step\":1,\"a\":2}\n{\"step\":2,\"a\":3";
  const report::Rows rows = report::read_rows(dir / "m.jsonl");
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0].step == 0);
  CHECK(report::value_of(rows.rows[0].metrics, "a") == 1.5);
  CHECK(std::isnan(report::value_of(rows.rows[0].metrics, "b")));
  CHECK(rows.rows[0].metrics.count("b") == 1);
  CHECK(std::isnan(report::value_of(rows.rows[1].metrics, "b")));
  CHECK(rows.num_unreadable == 2);
  CHECK(rows.changes == std::vector<std::string>{"step 1: optim.lr 0.1 -> 0.2"});
  CHECK(report::read_rows(dir / "none.jsonl").rows.empty());
}

TEST_CASE("run files: invalid UTF-8 becomes U+FFFD, other bytes stay") {
  CHECK(report::valid_utf8("a\xC3\xA4\xE2\x80\xAE") == "a\xC3\xA4\xE2\x80\xAE");
  CHECK(report::valid_utf8("a\xFF\xC3z\xF0\x9F") == "a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("run files: a folder without a run is refused with the reason") {
  const test::TempDir dir;
  CHECK_THROWS_WITH(report::read_run(dir / "none"), Catch::Contains("no such folder"));
  CHECK_THROWS_WITH(report::read_run(dir / ""), Catch::Contains("a run folder with metrics.jsonl"));
  std::ofstream(dir / "config.yaml") << "a: 1\n";
  CHECK_THROWS_WITH(report::read_run(dir / "config.yaml"), Catch::Contains("expected a run folder, got a file"));
  CHECK_THROWS_WITH(report::read_run(dir / ""), Catch::Contains("a run folder with metrics.jsonl"));
  fs::create_directories(dir / "checkpoints");
  CHECK(report::read_run(dir / "").recipe_yaml == "a: 1\n");
}

TEST_CASE("sessions: a start's line is completed at its end, and stays open after a kill") {
  const test::TempDir dir;
  const fs::path file = dir / "sessions.jsonl";
  report::Session first = report::session_here();
  first.program = "qrl-train 1";
  first.first_step = 1;
  report::begin_session(file, first);
  report::Session second = first;
  second.first_step = 11;
  report::begin_session(file, second);
  report::end_session(file, 20, "done");
  const std::vector<report::Session> sessions = report::read_sessions(file);
  REQUIRE(sessions.size() == 2);
  CHECK(sessions[0].ended.empty());
  CHECK(sessions[0].host == first.host);
  CHECK(sessions[0].unix_s > 1.7e9);
  CHECK(sessions[1].first_step == 11);
  CHECK(sessions[1].last_step == 20);
  CHECK(sessions[1].ended == "done");
  CHECK(sessions[1].ended_unix_s >= sessions[1].unix_s);
  CHECK(report::read_sessions(dir / "none").empty());
}

TEST_CASE("run lock: a run counts as running while it is held, and checking does not take it") {
  const test::TempDir dir;
  CHECK_FALSE(report::is_running(dir / ""));
  {
    const state::FolderLock lock(dir / "");
    CHECK(report::is_running(dir / ""));
  }
  CHECK_FALSE(report::is_running(dir / ""));
  CHECK_NOTHROW(state::FolderLock(dir / ""));
}

TEST_CASE("run files: too deeply nested rows, sessions and samples count as unreadable lines") {
  const test::TempDir dir;
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  fs::create_directories(dir / "rollouts");
  std::ofstream(dir / "metrics.jsonl") << "{\"step\":1,\"a\":1}\n{\"step\":2,\"changed_on_resume\":{\"k\":[" << deep
                                       << ",1]}}\n{\"step\":3,\"a\":" << deep << "}\n";
  std::ofstream(dir / "sessions.jsonl") << "{\"unix\":1,\"host\":" << deep << "}\n{\"unix\":2}\n";
  std::ofstream(dir / "rollouts/step_1.jsonl")
      << "{\"response\":\"r\",\"prompt_id\":" << deep << "}\n{\"response\":\"s\",\"prompt_id\":1}\n";
  const report::RunFiles run = report::read_run(dir.path());
  CHECK(run.rows.rows.size() == 1);
  CHECK(run.rows.num_unreadable == 2);
  CHECK(run.sessions.size() == 1);
  const auto groups = report::read_groups(dir / "rollouts/step_1.jsonl", 8);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0]["samples"][0]["response"] == "s");
}

TEST_CASE("run files: a pipe in place of a file is refused by name without waiting") {
  for (const char* name : {"metrics.jsonl", "sft_metrics.jsonl", "sessions.jsonl"}) {
    const test::TempDir dir;
    std::ofstream(dir / "metrics.jsonl") << "{\"step\":1,\"a\":1}\n";
    fs::remove(dir / name);
    REQUIRE(mkfifo((dir / name).c_str(), 0600) == 0);
    CHECK_THROWS_WITH(report::read_run(dir.path()),
                      Catch::Contains(name) && Catch::Contains("a regular file, got a device or pipe"));
    CHECK_THROWS_WITH(report::begin_session(dir / name, report::session_here()), Catch::Contains("a device or pipe"));
  }
}

// scripts/compare_modes: that it runs, and that reports keep what other machines found.
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kScript = QRL_SOURCE_DIR "/scripts/compare_modes ";
const fs::path kPublished = QRL_SOURCE_DIR "/docs/science";

/// The tables of a report: without its command, which names folders, and without plots, which need matplotlib.
std::vector<std::string> tables(const fs::path& folder) {
  std::istringstream text(test::read_file(folder / "table.md"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("| ")) lines.push_back(line);
  return lines;
}

std::vector<std::string> rows_of(const fs::path& csv, const std::string& run) {
  std::istringstream text(test::read_file(csv));
  std::vector<std::string> rows;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(run)) rows.push_back(line);
  return rows;
}

/// " --variants LIST" of the command that made a report; empty where it was all of them.
std::string variants_of(const fs::path& report) {
  const std::string text = test::read_file(report), command = text.substr(0, text.find('\n'));
  const std::size_t at = command.find(" --variants ");
  return at == std::string::npos ? "" : command.substr(at, command.find_first_of(" `", at + 12) - at);
}

}  // namespace

TEST_CASE("compare_modes trains an arm from a cold start and reports it, and does neither twice") {
  const test::TempDir dir;
  const std::string command = kScript + "--small --seeds 0 --steps 2 --arms qurl --variants coarse --out " +
                              (dir / "out").string() + " --runs " + (dir / "runs").string();
  const test::Outcome first = test::run_command(command);
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  CHECK(first.output.find("cold start, seed 0") != std::string::npos);
  CHECK(rows_of(dir / "out/runs.csv", "coarse,qurl,0,").size() == 1);
  const auto steps = rows_of(dir / "out/metrics.csv", "coarse,qurl,0,");
  REQUIRE(steps.size() == 3);
  CHECK(steps[2].starts_with("coarse,qurl,0,2,"));
  const std::string settings = test::read_file(dir / "runs/coarse/qurl-seed0/config.yaml");
  CHECK(settings.find("weights: int4") != std::string::npos);

  const test::Outcome second = test::run_command(command);
  CHECK(second.exit_code == 0);
  CHECK(second.output.find("cold start") == std::string::npos);
  CHECK(second.output.find(" s  ") == std::string::npos);  // the seconds of a run
  CHECK(rows_of(dir / "out/metrics.csv", "coarse,qurl,0,") == steps);
}

TEST_CASE(
    "compare_modes --keep: docs/science's tables are those of its numbers, and a run made here replaces its own only") {
  const test::TempDir dir;
  const fs::path out = dir / "out", run = dir / "runs/standard/bf16-seed1";
  fs::create_directories(out);
  const std::string report =
      kScript + "--report-only --keep --out " + out.string() + " --runs " + (dir / "runs").string();
  CHECK(test::run_command(report).exit_code != 0);  // nothing to keep
  for (const char* file : {"runs.csv", "metrics.csv"}) fs::copy_file(kPublished / file, out / file);
  const std::string published = test::read_file(kPublished / "metrics.csv");
  const std::string variants = variants_of(kPublished / "table.md");

  REQUIRE(test::run_command(report + variants).exit_code == 0);
  CHECK(test::read_file(out / "metrics.csv") == published);
  CHECK(test::read_file(out / "runs.csv") == test::read_file(kPublished / "runs.csv"));
  CHECK(tables(out) == tables(kPublished));

  fs::create_directories(run);
  std::ofstream(run / "metrics.jsonl") << R"({"step": 0, "val/countdown/reward/mean@1": 0.125})"
                                          "\n"
                                          R"({"step": 60, "val/countdown/reward/mean@1": 0.875})"
                                          "\n";
  std::ofstream(run / "outcome.json") << R"({"settings": [], "exit_code": 0, "program": "abc", "seconds": 7.5})";
  REQUIRE(test::run_command(report + variants).exit_code == 0);
  CHECK(rows_of(out / "runs.csv", "standard,bf16,1,") == std::vector<std::string>{"standard,bf16,1,abc,7.5,\r"});
  CHECK(rows_of(out / "metrics.csv", "standard,bf16,1,").size() == 2);
  for (const char* other : {"standard,bf16,0,", "standard,bf16-tis,1,", "off-policy,bf16,1,"})
    CHECK(rows_of(out / "metrics.csv", other) == rows_of(kPublished / "metrics.csv", other));
  CHECK(tables(out) != tables(kPublished));
}

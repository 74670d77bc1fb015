// Tests scripts/science/compare_modes: it runs, reports keep the results of other machines, and the control is
// repeated.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kScript = QRL_SOURCE_DIR "/scripts/science/compare_modes ";
const fs::path kPublished = QRL_SOURCE_DIR "/docs/science";

/// Returns the tables of a report without its first line, whose command names folders.
std::string tables(const fs::path& folder) {
  const std::string text = test::read_file(folder / "results.md");
  return text.substr(text.find('\n'));
}

/// Returns a CSV file's text, decompressed if its name ends in .gz.
std::string text_of(const fs::path& csv) {
  return csv.extension() == ".gz" ? test::run_command("gzip -dc " + csv.string()).output : test::read_file(csv);
}

std::vector<std::string> rows_of(const fs::path& csv, const std::string& run) {
  std::istringstream text(text_of(csv));
  std::vector<std::string> rows;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(run)) rows.push_back(line);
  return rows;
}

/// Returns the charts of a report that differ from those of `expected`, or that `expected` lacks.
std::vector<std::string> charts_that_differ(const fs::path& folder, const fs::path& expected) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path other = expected / entry.path().filename();
    if (entry.path().extension() != ".svg") continue;
    if (!fs::exists(other) || test::read_file(entry.path()) != test::read_file(other)) names.push_back(other.stem());
  }
  return names;
}

/// Returns " --variants LIST" of a report's command; empty if the command used all variants.
std::string variants_of(const fs::path& report) {
  const std::string text = test::read_file(report), command = text.substr(0, text.find('\n'));
  const std::size_t at = command.find(" --variants ");
  return at == std::string::npos ? "" : command.substr(at, command.find_first_of(" `", at + 12) - at);
}

}  // namespace

TEST_CASE("compare_modes: trains an arm from a cold start and reports it, neither twice") {
  const test::TempDir dir;
  const std::string command = kScript + "--small --seeds 0 --steps 2 --arms qurl --variants coarse --out " +
                              (dir / "out").string() + " --runs " + (dir / "runs").string();
  const test::Outcome first = test::run_command(command);
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  CHECK(first.output.find("cold start, seed 0") != std::string::npos);
  CHECK(rows_of(dir / "out/runs.csv", "coarse,qurl,0,").size() == 1);
  const auto steps = rows_of(dir / "out/metrics.csv.gz", "coarse,qurl,0,");
  REQUIRE(steps.size() == 3);
  CHECK(steps[2].starts_with("coarse,qurl,0,2,"));
  const std::string settings = test::read_file(dir / "runs/coarse/qurl-seed0/config.yaml");
  CHECK(settings.find("weights: int4") != std::string::npos);

  const test::Outcome second = test::run_command(command);
  CHECK(second.exit_code == 0);
  CHECK(second.output.find("cold start") == std::string::npos);
  CHECK(second.output.find(" s  ") == std::string::npos);  // the seconds of a run
  CHECK(rows_of(dir / "out/metrics.csv.gz", "coarse,qurl,0,") == steps);

  // Without the run on this machine its row is kept while its recipe equals the arm's.
  const std::string row = rows_of(dir / "out/runs.csv", "coarse,qurl,0,").front();
  const std::string keep = kScript + "--small --seeds 0 --arms qurl --variants coarse --keep --report-only --out " +
                           (dir / "out").string() + " --runs " + (dir / "none").string() + " --steps ";
  const test::Outcome same = test::run_command(keep + "2");
  INFO(same.output);
  CHECK(same.exit_code == 0);
  CHECK(rows_of(dir / "out/runs.csv", "coarse,qurl,0,") == std::vector<std::string>{row});
  CHECK(rows_of(dir / "out/metrics.csv.gz", "coarse,qurl,0,") == steps);
  const test::Outcome other = test::run_command(keep + "3");
  CHECK(other.exit_code == 2);
  CHECK(test::says(other, "coarse qurl seed 0: trainer.total_training_steps was 2 and is 3"));

  // Removes keys from the stored recipe: one whose default is the earlier behavior, and one whose default is not.
  const fs::path recipes = dir / "out/recipes.json.gz";
  auto stored = nlohmann::json::parse(text_of(recipes));
  REQUIRE(stored.size() == 1);
  auto& keys = stored.front();
  REQUIRE(row.ends_with("," + stored.begin().key()));
  REQUIRE(keys.erase("rollout.enforce_eager") == 1);
  const auto write = [&] {
    std::ofstream(dir / "recipes.json") << stored.dump();
    REQUIRE(test::run_command("gzip -c " + (dir / "recipes.json").string() + " > " + recipes.string()).exit_code == 0);
  };
  write();
  CHECK(test::run_command(keep + "2").exit_code == 0);
  REQUIRE(keys.erase("algorithm.name") == 1);  // a mode sets it
  write();
  const test::Outcome set = test::run_command(keep + "2");
  CHECK(set.exit_code == 2);
  CHECK(test::says(set, "algorithm.name is new and"));
  stored.clear();
  write();
  CHECK(test::says(test::run_command(keep + "2"), "is not in recipes.json.gz"));
}

TEST_CASE("compare_modes: older runs are excluded if a new key's default changes behavior") {
  const auto differences = [](const std::string& stored, const std::string& today) {
    return test::run_command("cd " QRL_SOURCE_DIR
                             "/scripts/science && python3 -c 'import resolved; print(resolved.differences(" +
                             stored + ", resolved.read(\"" + today + "\")))'")
        .output;
  };
  const std::string rotated = "quant:\\n  rollout:\\n    rotation: auto # default\\n";
  CHECK(differences("{}", rotated) == "['quant.rollout.rotation is new and auto, which was none before']\n");
  CHECK(differences("{}", "quant:\\n  rollout:\\n    rotation: none # mode qarl\\n") == "[]\n");
  const std::string no_task = "s:\\n  task: null # r.yaml:1\\n  size: 2 # default\\n";
  CHECK(differences("{\"s.task\": \"null\", \"s.size\": \"1\"}", no_task) == "[]\n");
  CHECK(differences("{\"s.task\": \"sums\", \"s.size\": \"1\"}", no_task) ==
        "['s.task was sums and is null', 's.size was 1 and is 2']\n");
  CHECK(differences("{\"a\": \"1\"}", "a: 2 # default\\nb: 3 # default\\n") == "['a was 1 and is 2']\n");
  CHECK(differences("{\"a\": \"1\", \"gone\": \"7\"}", "a: 1 # default\\nb: 3 # r.yaml:1\\n") ==
        "['b is new and 3, not its default']\n");
}

TEST_CASE("compare_modes --keep: remakes tables and charts from CSV files, and a local run replaces only its own") {
  const test::TempDir dir;
  const fs::path out = dir / "out", run = dir / "runs/standard/bf16-seed1";
  fs::create_directories(out);
  const std::string report =
      kScript + "--report-only --keep --out " + out.string() + " --runs " + (dir / "runs").string();
  CHECK(test::run_command(report).exit_code != 0);  // nothing to keep
  for (const char* file : {"runs.csv", "metrics.csv.gz", "recipes.json.gz"})
    fs::copy_file(kPublished / file, out / file);
  const std::string published = text_of(kPublished / "metrics.csv.gz");
  const std::string variants = variants_of(kPublished / "results.md");

  REQUIRE(test::run_command(report + variants).exit_code == 0);
  CHECK(text_of(out / "metrics.csv.gz") == published);
  CHECK(test::read_file(out / "runs.csv") == test::read_file(kPublished / "runs.csv"));
  CHECK(tables(out) == tables(kPublished));
  CHECK(charts_that_differ(out, kPublished) == std::vector<std::string>{});
  CHECK(charts_that_differ(kPublished, out) == std::vector<std::string>{});

  fs::create_directories(run);
  std::ofstream(run / "metrics.jsonl") << R"({"step": 0, "val/countdown/reward/mean@1": 0.125})"
                                          "\n"
                                          R"({"step": 60, "val/countdown/reward/mean@1": 0.875})"
                                          "\n";
  std::ofstream(run / "outcome.json") << R"({"settings": [], "exit_code": 0, "program": "abc", "seconds": 7.5})";
  REQUIRE(test::run_command(report + variants).exit_code == 0);
  CHECK(rows_of(out / "runs.csv", "standard,bf16,1,") == std::vector<std::string>{"standard,bf16,1,abc,7.5,,unknown"});
  CHECK(rows_of(out / "metrics.csv.gz", "standard,bf16,1,").size() == 2);
  for (const char* other : {"standard,bf16,0,", "standard,bf16-tis,1,", "off-policy,bf16,1,"})
    CHECK(rows_of(out / "metrics.csv.gz", other) == rows_of(kPublished / "metrics.csv.gz", other));
  CHECK(tables(out) != tables(kPublished));
  CHECK_FALSE(charts_that_differ(out, kPublished).empty());
}

TEST_CASE("compare_modes: repeats the control four times from one cold start and once from each of four") {
  const test::TempDir dir;
  const std::string arms = kScript + "--arms 'again-*' --seeds 0,1,2 --list --runs " + (dir / "runs").string();
  const std::string list = test::run_command(arms).output;
  CHECK(std::ranges::count(list, '\n') == 7);
  for (const char* run : {"again-0 0", "again-1 0", "again-2 0", "again-3 0", "again-0 1", "again-0 2", "again-0 3"})
    CHECK(list.find(std::string(" standard ") + run + " - the control again") != std::string::npos);

  const std::string train = kScript + "--small --seeds 5 --steps 1 --arms again-1 --variants standard --out " +
                            (dir / "out").string() + " --runs " + (dir / "runs").string();
  REQUIRE(test::run_command(train).exit_code == 0);
  const fs::path config = dir / "runs/standard/again-1-seed5/config.yaml";
  const auto seed_of = [&config](const std::string& key) {
    return test::run_command("cd " QRL_SOURCE_DIR
                             "/scripts/science && python3 -c 'import resolved; print(resolved.read(open(\"" +
                             config.string() + "\").read())[\"" + key + "\"][0])'")
        .output;
  };
  CHECK(seed_of("trainer.seed") == "101\n");  // the samples are its own, the prompts are those of the cold start's seed
  CHECK(seed_of("data.train_generator.seed") == "5\n");
  CHECK(seed_of("data.seed") == "5\n");
}

TEST_CASE("compare_modes: reports the spread of the control's repetitions beside the claims") {
  const test::TempDir dir;
  std::string runs = "variant,arm,seed,program,seconds,reason\n";
  std::string metrics = "variant,arm,seed,step,reward,val,gap_k3,rho_max,clip_high,clip_low,alpha,ess\n";
  const auto add = [&](const std::string& run, const std::string& reward, const std::string& score) {
    runs += run + ",abc,,\n";
    metrics += run + ",0,,0.25,,,,,,\n" + run + ",60," + reward + "," + score + ",,,,,,\n";
  };
  for (const char* seed : {"0", "1", "2"}) {
    add(std::string("standard,flashrl-int8,") + seed, "0.5", "0.6");
    add(std::string("standard,naive-none,") + seed, "0.5", "0.5");
  }
  add("off-policy,flashrl-int8,0", "0.5", "0.6");
  add("off-policy,naive-none,0", "0.5", "0.5");
  add("standard,again-0,0", "0.41", "0.50");
  add("standard,again-1,0", "0.42", "0.52");
  add("standard,again-2,0", "0.43", "0.54");
  add("standard,again-3,0", "0.44", "0.56");
  add("standard,again-0,1", "0.51", "0.40");
  add("standard,again-0,2", "0.61", "0.60");
  add("standard,again-0,3", "0.71", "0.70");
  std::ofstream(dir / "runs.csv") << runs;
  std::ofstream(dir / "metrics.csv") << metrics;
  REQUIRE(test::run_command("gzip " + (dir / "metrics.csv").string()).exit_code == 0);
  const test::Outcome report = test::run_command(kScript + "--report-only --keep --out " + dir.path().string() +
                                                 " --runs " + (dir / "none").string());
  INFO(report.output);
  REQUIRE(report.exit_code == 0);
  // Deviations of 0.50, 0.52, 0.54, 0.56 and of 0.50, 0.40, 0.60, 0.70, with n - 1: sqrt(0.002 / 3) and sqrt(0.05 / 3).
  const std::string text = tables(dir.path());
  CHECK(text.find("| one cold start | 4 | 0.530 ± 0.026 | 0.425 ± 0.013 |\n") != std::string::npos);
  CHECK(text.find("| a cold start each | 4 | 0.550 ± 0.129 | 0.560 ± 0.129 |\n") != std::string::npos);
  // Three pairs in one column and one in the other: 0.0258 * sqrt(2 / 3) and 0.0258 * sqrt(2).
  CHECK(text.find("| chance alone: equal runs | again | again | ± 0.021 | ± 0.037 | – | – |\n") != std::string::npos);
}

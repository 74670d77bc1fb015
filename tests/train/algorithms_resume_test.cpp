// Tests every algorithm with every optimizer: a run stopped at a random moment resumes to the bits of an uninterrupted
// run.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

struct Way {
  std::string name, settings;
  std::string cold_start;  ///< the checkpoint's name, made once for all runs; "": no cold start
};

/// Without a cold start the tiny model is never right: its samples differ only in length.
const std::string kByLength =
    "--set sft.steps=0 --set eval.freq=0 --set reward.overlong_buffer={enable: true, len: 24} "
    "--set algorithm.entropy_coef=0 --set data.train_batch_size=16 --set actor.mini_batch_size=8 "
    "--set data.train_generator.size=256 ";

std::string shell_quoted(std::string settings) {
  for (std::size_t at = 0; (at = settings.find("={", at)) != std::string::npos; at += 2) {
    const std::size_t word = settings.rfind(' ', at) + 1, end = settings.find('}', at) + 1;
    settings = settings.substr(0, word) + "'" + settings.substr(word, end - word) + "'" + settings.substr(end);
  }
  return settings;
}

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const char* loss : {"grpo --set rollout_correction.acr=true", "dr_grpo --set rollout_correction.method=icepop",
                           "dapo --set rollout_correction.method=ais",
                           "gspo --set rollout_correction.method=mis_geo --set rollout_correction.threshold=2 --set "
                           "rollout_correction.threshold_low=0.5 --set algorithm.clip_ratio_high=0.3",
                           "tbpo --set rollout_correction.method=tbpo"}) {
    for (const std::string optimizer : {"adamw", "muon"}) {
      const std::string name = loss;
      all.push_back({name.substr(0, name.find(' ')) + " " + optimizer,
                     kByLength + "--set algorithm.name=" + loss + " --set optim.name=" + optimizer, ""});
    }
  }
  // With the right form some answers score more than others: some groups differ, and some do not.
  all.push_back(
      {"dynamic sampling",
       "--set sft.steps=120 --set sft.batch_size=16 --set sft.save_freq=120 --set eval.freq=0 --set reward.format=0.25 "
       "--set data.max_response_length=96 --set data.train_generator.size=50 "
       "--set algorithm.filter_groups={enable: true, max_num_gen_batches: 40, on_exhausted: train_partial} "
       "--set data.gen_batch_size=3 --set data.train_batch_size=6 --set actor.mini_batch_size=3",
       "sft_120"});
  return all;
}

bool is_long() { return std::getenv("QRL_LONG_TESTS") != nullptr; }

/// Says when and how to cut a run: at most `longest_delay_us` after its log contains `text`.
struct Cut {
  std::string text;
  int signal;
  unsigned longest_delay_us;
};

/// Returns whether the log contained the text before the run ended.
bool wait_for_text(const std::string& text, const fs::path& log, pid_t pid) {
  for (std::uintmax_t size = 0; test::wait_for_file(log, pid, size);) {
    const std::string said = test::read_file(log);
    if (said.find(text) != std::string::npos) return true;
    size = said.size() + 1;
  }
  return false;
}

/// Starts a run and cuts it. Returns false if the run finished first.
bool is_cut(const Cut& cut, const fs::path& run, const std::string& settings, std::mt19937& random) {
  const fs::path log = run.string() + ".log";
  const pid_t pid = test::start_command(test::tiny_command(run, settings), log);
  if (wait_for_text(cut.text, run / "log.txt", pid)) {
    usleep(static_cast<useconds_t>(random() % (cut.longest_delay_us + 1)));
    kill(pid, cut.signal);
  }
  const int exit_code = test::wait_for(pid);
  INFO(test::read_file(log));
  if (exit_code != 0) REQUIRE(exit_code == (cut.signal == SIGTERM ? 75 : 128 + SIGKILL));
  return exit_code != 0;
}

/// Cuts runs, each sooner than the previous one, until one is cut before its end. Resumes that run and compares it.
void check_cut(Cut cut, const fs::path& whole, const fs::path& run, const std::string& settings, std::mt19937& random) {
  CAPTURE(cut.text, cut.signal);
  constexpr int kTries = 10;
  int tries = 0;
  while (!is_cut(cut, run, settings, random)) {
    REQUIRE(++tries < kTries);
    fs::remove_all(run);
    cut.longest_delay_us /= 2;
  }
  const test::Outcome rest = test::run_command(test::tiny_command(run, settings));
  INFO(rest.output);
  REQUIRE(rest.exit_code == 0);
  CHECK(test::difference(whole, run) == "");
}

}  // namespace

TEST_CASE("resume: equal bits after a stop at a random moment, for each algorithm with each optimizer") {
  std::mt19937 random(7);
  int way_number = 0;
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    ++way_number;
    const test::TempDir dir;
    std::string settings = shell_quoted(way.settings) + " --set trainer.save_freq=2";
    if (!way.cold_start.empty()) {
      const test::Outcome start = test::run_command(test::kProgram + "sft " + test::kTiny + " " + settings +
                                                    " --set trainer.default_local_dir=" + (dir / "start").string());
      INFO(start.output);
      REQUIRE(start.exit_code == 0);
      settings += " --set sft.from=" + (dir / ("start/checkpoints/" + way.cold_start)).string();
    }
    const test::Outcome whole = test::run_command(test::tiny_command(dir / "whole", settings));
    INFO(whole.output);
    REQUIRE(whole.exit_code == 0);
    const auto rows = test::stable_rows(dir / "whole/metrics.jsonl");
    REQUIRE(rows.size() == 4);
    double most = 0;
    for (const auto& row : rows) most = std::max(most, row.at("actor/grad_norm").get<double>());
    CHECK(most > 0);  // it learns something

    std::vector<Cut> cuts;
    const int num_cuts = is_long() ? 25 : way_number == 1 ? 2 : 1;
    for (int i = 0; i < num_cuts; ++i) {
      // Every fourth cut, including the second, comes before the first step: from the log's first byte.
      const std::string step = "step " + std::to_string(1 + random() % 3) + "/4 ";
      cuts.push_back({i % 4 == 1 ? "" : step, (i + way_number) % 2 == 0 ? SIGTERM : SIGKILL, 60'000});
    }
    if (way.name == "dynamic sampling") {
      CHECK(rows.back().at("data/flat_group_fraction").get<double>() > 0);
      // Cuts where a step has some of its groups and is about to sample again, for the first time or for the last.
      const std::string log = test::read_file(dir / "whole/log.txt");
      for (const std::string step : {"step 2: ", "step 3: "}) {
        const std::size_t at = step == "step 2: " ? log.find(step) : log.rfind(step);
        REQUIRE(at != std::string::npos);
        const std::string said = log.substr(at, log.find('\n', at) - at);
        for (const int signal : is_long() ? std::vector{SIGTERM, SIGKILL} : std::vector{SIGTERM})
          cuts.push_back({said, signal, 1'000});
      }
    }
    for (std::size_t i = 0; i < cuts.size(); ++i)
      check_cut(cuts[i], dir / "whole", dir / ("run" + std::to_string(i)), settings, random);
  }
}

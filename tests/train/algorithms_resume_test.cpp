// Every algorithm with every optimizer: stopped at a random moment, a run goes on to the bits of one never stopped.
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
};

/// Without a cold start the tiny model is never right: what its samples differ in is their length.
const std::string kByLength =
    "--set sft.steps=0 --set eval.freq=0 --set reward.overlong_buffer={enable: true, len: 24} "
    "--set algorithm.entropy_coef=0 --set data.train_batch_size=16 --set actor.mini_batch_size=8 "
    "--set data.train_generator.size=256 ";

std::string quoted(std::string settings) {
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
                     kByLength + "--set algorithm.name=" + loss + " --set optim.name=" + optimizer});
    }
  }
  // Written in the right form some answers score more than others: groups differ, and some do not.
  all.push_back({"dynamic sampling",
                 "--set sft.steps=120 --set sft.batch_size=16 --set eval.freq=0 --set reward.format=0.25 "
                 "--set data.max_response_length=96 --set data.train_generator.size=50 "
                 "--set algorithm.filter_groups={enable: true, max_num_gen_batches: 40, on_exhausted: train_partial} "
                 "--set data.gen_batch_size=3 --set data.train_batch_size=6 --set actor.mini_batch_size=3"});
  return all;
}

int num_cuts() { return std::getenv("QRL_LONG_TESTS") != nullptr ? 25 : 1; }

}  // namespace

TEST_CASE("each algorithm with each optimizer: the same bits after a stop at a random moment") {
  std::mt19937 random(7);
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    const test::TempDir dir;
    const std::string settings = quoted(way.settings);
    const test::Outcome whole = test::run_command(test::tiny_command(dir / "whole", settings));
    INFO(whole.output);
    REQUIRE(whole.exit_code == 0);
    const auto rows = test::stable_rows(dir / "whole/metrics.jsonl");
    REQUIRE(rows.size() == 4);
    double most = 0;
    for (const auto& row : rows) most = std::max(most, row.at("actor/grad_norm").get<double>());
    CHECK(most > 0);  // it learns something
    if (way.name == "dynamic sampling") {
      CHECK(rows.back().at("data/num_gen_batches").get<double>() > 1);
      CHECK(rows.back().at("data/flat_group_fraction").get<double>() > 0);
    }
    for (int cut = 0; cut < num_cuts(); ++cut) {
      const fs::path run = dir / ("run" + std::to_string(cut));
      // Killed, or told to stop, some milliseconds after a random checkpoint.
      const std::string after = "checkpoints/step_" + std::to_string(1 + random() % 3);
      const pid_t pid = test::start_command(test::tiny_command(run, settings), dir / "log");
      if (test::wait_for_file(run / after, pid)) {
        usleep(random() % 60'000);
        kill(pid, cut % 2 == 0 ? SIGTERM : SIGKILL);
      }
      test::wait_for(pid);
      const test::Outcome rest = test::run_command(test::tiny_command(run, settings));
      INFO(rest.output);
      REQUIRE(rest.exit_code == 0);
      CHECK(test::difference(dir / "whole", run) == "");
    }
  }
}

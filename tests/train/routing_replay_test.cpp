// Tests runs of a mixture of experts: metrics of routes, and their replay.
#include <cmath>

#include "train/in_process.h"
#include "train/support.h"

using namespace qrl;

namespace {

const std::string kMoe = "model.init.config=" QRL_SOURCE_DIR "/recipes/models/quickstart-moe/config.json";
const std::string kSetMoe = "--set " + kMoe + " ";

/// Trains a step of 2 updates with sampled int8 weights and fp32 masters; returns its row.
train::Metrics row_of(std::vector<std::string> settings) {
  test::FakeVerifier verifier;
  settings.push_back(kMoe);
  settings.push_back("reward.overlong_buffer={enable: true, len: 24}");
  test::Training training(verifier, std::move(settings));
  training.trainer.train();
  const auto rows = report::read_rows(training.folder.metrics_file()).rows;
  REQUIRE(rows.size() == 1);
  return rows.front().metrics;
}

}  // namespace

TEST_CASE("route replay: some routes differ without replay, none with the sampler's routes replayed") {
  const train::Metrics none = row_of({"quant.rollout.weights=int4"});
  CHECK(none.at("moe/route_flip_fraction") > 0);
  CHECK(none.at("moe/route_flip_fraction") == none.at("moe/own_route_flip_fraction"));
  CHECK(none.at("moe/token_flip_fraction") >= none.at("moe/route_flip_fraction"));
  for (const char* layer : {"0", "1", "2"}) CHECK(none.count("moe/route_flip_fraction/layer_" + std::string(layer)));
  CHECK(none.at("moe/expert_load_max") > 1);
  const train::Metrics replayed = row_of({"quant.rollout.weights=int4", "algorithm.router_replay=rollout"});
  CHECK(replayed.at("moe/route_flip_fraction") == 0);
  CHECK(replayed.at("moe/token_flip_fraction") == 0);
  CHECK(replayed.at("moe/own_route_flip_fraction") > 0);
  CHECK(replayed.at("mismatch/k3_kl") < none.at("mismatch/k3_kl"));
  CHECK(replayed.at("mismatch/probe_k3_kl") < none.at("mismatch/probe_k3_kl"));
}

TEST_CASE("route replay of old routes: the second update uses those of the step's first pass") {
  const train::Metrics none = row_of({"optim.lr=0.02"});
  const train::Metrics old = row_of({"optim.lr=0.02", "algorithm.router_replay=old"});
  // With the first update's weights the routes are those of none; after it they stay.
  CHECK(old.at("moe/route_flip_fraction") < none.at("moe/route_flip_fraction"));
  CHECK(old.at("moe/own_route_flip_fraction") > old.at("moe/route_flip_fraction"));
}

TEST_CASE("bitwise MoE: uses the sampler's routes without a replay, and k3 is 0") {
  const train::Metrics row =
      row_of({"rollout.bitwise=true", "quant.learner.forward=low_bit", "actor.mini_batch_size=4"});
  CHECK(row.at("moe/route_flip_fraction") == 0);
  CHECK(row.at("mismatch/k3_kl") == 0);
}

TEST_CASE("dense run: has no route metrics, and names a replay without effect") {
  test::FakeVerifier verifier;
  test::Training training(verifier, {"algorithm.router_replay=rollout"});
  training.trainer.train();
  const auto rows = report::read_rows(training.folder.metrics_file()).rows;
  REQUIRE(rows.size() == 1);
  for (const auto& [name, value] : rows.front().metrics) CHECK_FALSE(name.starts_with("moe/"));
  const std::string dry = test::kProgram + test::kTiny + " --dry-run --set algorithm.router_replay=rollout";
  const std::string idle = "the model is dense, so these have no effect: algorithm.router_replay rollout;";
  CHECK(test::says(test::run_command(dry), idle));
  CHECK(test::run_command(dry + " " + kSetMoe).output.find(idle) == std::string::npos);
  const std::string once = test::kProgram + test::kTiny + " --dry-run " + kSetMoe +
                           "--set algorithm.router_replay=old --set actor.mini_batch_size=4";
  CHECK(test::says(test::run_command(once), "these have no effect: algorithm.router_replay old;"));
}

TEST_CASE("MoE resume: equal bits to an unbroken run, and another replay setting is refused") {
  const test::TempDir dir;
  const std::string settings = kSetMoe + "--set sft.steps=0 --set algorithm.router_replay=rollout ";
  const auto run = [&](const std::string& name, const std::string& more) {
    return test::run_command(test::tiny_command(dir / name, settings + more));
  };
  REQUIRE(run("whole", "").exit_code == 0);
  REQUIRE(run("parts", "--set trainer.total_training_steps=2").exit_code == 0);
  const test::Outcome other = run("parts", "--set algorithm.router_replay=none");
  CHECK(other.exit_code == 2);
  CHECK(test::says(other, "algorithm.router_replay"));
  REQUIRE(run("parts", "").exit_code == 0);
  CHECK(test::difference(dir / "whole", dir / "parts") == "");
}

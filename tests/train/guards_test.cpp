// Tests the trainer in this process, with the test's own verifiers: its guards, and events between its phases.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "support/catch.h"
#include "train/in_process.h"
#include "train/metrics/progress.h"
#include "train/step/policy_updater.h"
#include "train/support.h"

using namespace qrl;
using test::FakeVerifier;
using test::Training;

namespace {

void train_one_step(const tasks::Verifier& verifier, std::vector<std::string> settings) {
  Training(verifier, std::move(settings)).trainer.train();
}

/// Returns the exit code of the error that `body` throws; 0 if it throws none.
template <class Body>
int exit_code_of(const Body& body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error.exit_code();
  }
  return 0;
}

/// Returns the virtual memory of this process in bytes.
std::int64_t virtual_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("non-finite updates: trainer.max_non_finite_steps in a row end the run with exit code 3") {
  train::Recipe recipe;
  recipe.trainer.max_non_finite_steps = 3;
  train::RunState state;
  learner::UpdateReport good, bad;
  bad.finite = false;
  bad.non_finite = "loss";
  const auto guard = [&](const learner::UpdateReport& report) {
    return exit_code_of([&] { train::guard_finite(report, recipe, state); });
  };
  CHECK(guard(bad) == 0);
  CHECK(guard(bad) == 0);
  CHECK(guard(good) == 0);  // the streak ends
  CHECK(guard(bad) == 0);
  CHECK(guard(bad) == 0);
  CHECK(state.non_finite_streak == 2);
  CHECK(guard(bad) == 3);
}

TEST_CASE("diverging weights: a too large learning rate ends cold start and training with exit code 3") {
  const test::TempDir dir;
  for (const char* settings :
       {"--set sft.lr=1e30", "--set optim.lr=1e15 --set trainer.max_non_finite_steps=1 --set sft.steps=0",
        "--set optim.lr=3e38 --set optim.weight_decay=100 --set optim.lr_warmup_steps=0 --set sft.steps=0"}) {
    const test::Outcome outcome =
        test::run_command(test::tiny_command(dir / std::to_string(std::hash<std::string>{}(settings)), settings));
    INFO(settings << outcome.output);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.output.find("finite") != std::string::npos);
  }
}

TEST_CASE("dynamic sampling: without any group the run ends with exit code 3, with some it trains on those") {
  const test::TempDir dir;
  // Without a cold start the tiny model is never right: all groups have equal scores, unless the form also scores.
  const auto run = [&](const std::string& name, const std::string& settings, const std::string& filter) {
    return test::run_command(test::tiny_command(
        dir / name, settings +
                        " --set eval.freq=0 --set data.gen_batch_size=2 --set data.train_batch_size=4 "
                        "--set 'algorithm.filter_groups={enable: true, max_num_gen_batches: 2, " +
                        filter + "}'"));
  };
  const std::string flat = "--set sft.steps=0 --set data.max_response_length=8";
  const test::Outcome error = run("error", flat, "on_exhausted: error");
  INFO(error.output);
  CHECK(error.exit_code == 3);
  CHECK(error.output.find("4 groups whose scores differ, got 0 in 2 draws of 2 prompts") != std::string::npos);
  CHECK(error.output.find("set on_exhausted: train_partial") != std::string::npos);
  const test::Outcome none = run("none", flat, "on_exhausted: train_partial");
  INFO(none.output);
  CHECK(none.exit_code == 3);
  CHECK(none.output.find("1 groups whose scores differ (at least), got 0") != std::string::npos);
  CHECK(none.output.find("set on_exhausted") == std::string::npos);

  const std::string some =
      "--set sft.steps=120 --set sft.batch_size=16 --set reward.format=0.25 "
      "--set data.max_response_length=96 --set trainer.total_training_steps=2";
  const test::Outcome partial = run("partial", some, "on_exhausted: train_partial");
  INFO(partial.output);
  REQUIRE(partial.exit_code == 0);
  for (const auto& row : test::stable_rows(dir / "partial/metrics.jsonl")) {
    const double trained = row.at("data/trained_groups"), drawn = row.at("data/drawn_groups");
    CHECK((trained >= 1 && trained <= 4 && drawn == 4));
    CHECK(row.at("data/flat_group_fraction") == (4 - trained) / 4);
  }
}

TEST_CASE("verifier errors: above reward.max_error_fraction they end the run with exit code 3") {
  FakeVerifier verifier;
  CHECK(exit_code_of([&] { train_one_step(verifier, {}); }) == 0);
  verifier.verdict.verifier_error = true;
  CHECK(exit_code_of([&] { train_one_step(verifier, {}); }) == 3);
  CHECK(exit_code_of([&] { train_one_step(verifier, {"reward.max_error_fraction=1"}); }) == 0);
}

TEST_CASE("rollout.free_cache_engine: KV memory is released before judging and learning") {
  std::atomic<std::int64_t> lowest{};
  FakeVerifier verifier;
  verifier.on_judge = [&] {
    std::int64_t seen = lowest;
    const std::int64_t now = virtual_bytes();
    while (now < seen && !lowest.compare_exchange_weak(seen, now)) {
    }
  };
  // 40,000 pages of 16 tokens × 3 layers × (32 keys + 32 values) of 4 bytes: 468 MiB.
  const auto memory_while_judging = [&](const std::string& freed) {
    lowest = std::numeric_limits<std::int64_t>::max();
    train_one_step(verifier,
                   {"rollout.kv_pages=40000", "quant.rollout.kv_cache=fp32", "rollout.free_cache_engine=" + freed});
    return lowest.load();
  };
  memory_while_judging("true");  // threads use address space
  const std::int64_t kept = memory_while_judging("false"), freed = memory_while_judging("true");
  CHECK(kept - freed > (std::int64_t{400} << 20));
}

TEST_CASE("fp8 KV calibration: at the last published weights, on prompts of the seed and the step") {
  const FakeVerifier verifier;
  for (const std::string forward : {"bf16", "low_bit"}) {
    CAPTURE(forward);
    Training training(verifier,
                      {"quant.rollout.kv_cache=fp8_e4m3", "trainer.seed=5", "quant.learner.forward=" + forward}, 2);
    training.trainer.train();
    CHECK(training.state.prompts_drawn == 8);
    const decoder::KvScales& used = training.trainer.sampler.decoder.kv_scales();
    CHECK(used.version == 4);  // two updates a step
    const decoder::KvScales want = training.kv_scales_after(8), of_the_start = training.kv_scales_after(0);
    CHECK(used.version == want.version);
    CHECK(used.keys_LK == want.keys_LK);
    CHECK(used.values_LK == want.values_LK);
    CHECK(used.keys_LK != of_the_start.keys_LK);
    CHECK(used.values_LK != of_the_start.values_LK);
    REQUIRE(!training.quantizer.responses.empty());
    const auto seen = std::exchange(training.quantizer.responses, {});
    CHECK(used.keys_LK != training.kv_scales_after(8).keys_LK);
    training.quantizer.responses = seen;
    training.recipe.trainer.seed = 0;
    CHECK(used.keys_LK != training.kv_scales_after(8).keys_LK);
  }
}

TEST_CASE("fp8 KV scales made once: used unchanged at every later version") {
  const FakeVerifier verifier;
  Training training(verifier, {"quant.rollout.kv_cache=fp8_e4m3", "quant.kv_calibration.when=once"}, 2);
  const decoder::KvScales first = training.kv_scales_after(0);
  CHECK(first.version == 0);
  training.trainer.train();
  const decoder::KvScales& used = training.trainer.sampler.decoder.kv_scales();
  CHECK(used.version == 4);
  CHECK(used.keys_LK == first.keys_LK);
  CHECK(used.values_LK == first.values_LK);
  CHECK(used.keys_LK != training.kv_scales_after(0).keys_LK);  // the weights have changed since
}

TEST_CASE("bitwise run: ends if the first update's log-probs differ from the sampler's") {
  FakeVerifier verifier;
  const std::vector<std::string> bitwise = {"rollout.bitwise=true", "quant.learner.forward=low_bit"};
  CHECK_NOTHROW(Training(verifier, bitwise).trainer.train());
  Training changed(verifier, bitwise);
  std::once_flag once;
  verifier.on_judge = [&] {  // between sample and update
    std::call_once(once, [&] { changed.recipe.rollout.temperature = 0.5; });
  };
  CHECK_THROWS_WITH(changed.trainer.train(), Catch::Contains("the sampler's log-probs, bit for bit"));
}

TEST_CASE("evaluation: reports its progress and subject before it ends") {
  const FakeVerifier verifier;
  Training training(verifier, {});
  training.recipe.eval.freq = 1;
  training.plan.held_out = train::load_held_out_prompts(training.recipe, training.plan.policy.tokenizer, verifier);
  const auto log_of = [&](double first_line_s, std::int64_t step) {
    const std::filesystem::path file = training.dir / ("log" + std::to_string(step));
    train::GenerationProgress::set_first_line_s(first_line_s);
    base::set_log_file(file);
    train::PhaseSeconds seconds;
    CHECK(training.trainer.held_out.run(step, seconds));
    base::set_log_file({});
    train::GenerationProgress::set_first_line_s(10);
    return test::read_file(file);
  };
  const std::string before = log_of(0, 0);  // 8 prompts with 2 samples
  INFO(before);
  CHECK(before.find("evaluation before step 1: 0 of 16 responses\n") != std::string::npos);
  CHECK(log_of(0, 2).find("evaluation after step 2: ") != std::string::npos);
  CHECK(log_of(1e6, 4).find("evaluation") == std::string::npos);  // a short evaluation logs nothing
}

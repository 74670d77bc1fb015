// Tests rollouts that are one step late: the trainer's loop, unchanged, with another source.
#include <cmath>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "learner/learner.h"
#include "support/catch.h"
#include "train/in_process.h"

using namespace qrl;

namespace {

/// Gives each step the rollouts sampled one step earlier, with the weights of that time; the first step gets its own.
/// With `overlap`, a thread with its own pool samples them while the learner updates, until the trainer drains it.
class OneStepLate final : public train::RolloutSource {
 public:
  /// With launch deferred and `overlap`, sampling runs inside the trainer's drain.
  OneStepLate(train::RolloutSource& source, std::int64_t last_step, bool overlap,
              std::launch launch = std::launch::async)
      : source_(source), last_step_(last_step), overlap_(overlap), launch_(launch) {}

  std::optional<train::RolloutBatch> next(std::int64_t step) override {
    std::optional<train::RolloutBatch> batch = ready_.valid() ? ready_.get() : source_.next(step);
    if (batch) versions.push_back(batch->policy_version);
    if (batch && step < last_step_) {
      ready_ = std::async(launch_, [this, step] { return source_.next(step + 1); });
      if (!overlap_) drain();
    }
    return batch;
  }
  void drain() override {
    if (ready_.valid()) ready_.wait();
  }

  std::vector<std::int64_t> versions;  ///< of the weights that sampled each step's rollouts

 private:
  train::RolloutSource& source_;
  std::int64_t last_step_;
  bool overlap_;
  std::launch launch_;
  std::future<std::optional<train::RolloutBatch>> ready_;
};

/// Judges by a response's length, so that most groups have right and wrong ones.
struct LengthVerifier final : tasks::RuleVerifier {
  void check_ground_truth(const tasks::Question&, const std::string&) const override {}
  std::shared_ptr<const types::Gold> prepare(const tasks::Question&) const override {
    return std::make_shared<types::Gold>();
  }
  reward::Verdict judge_one(std::string_view response, const types::Gold&) const noexcept override {
    reward::Verdict verdict;
    verdict.outcome = response.size() % 2 == 0 ? reward::Outcome::correct : reward::Outcome::wrong;
    return verdict;
  }
};

constexpr int kSteps = 3;
// fp64 sums of |w| over the trained fp32 weights. Instruction sets differ by 1e-7 of them, the two sources by 1e-5.
constexpr double kOnTimeDigest = 17447.0490, kLateDigest = 17447.2552, kDigestTolerance = 1e-6;

std::unique_ptr<test::Training> make_training(const tasks::Verifier& verifier, std::vector<std::string> settings = {}) {
  settings.insert(settings.end(), {"rollout_correction.method=tis", "quant.rollout.kv_cache=int8"});
  return std::make_unique<test::Training>(verifier, std::move(settings), kSteps);
}

/// Returns the sum of |w| over the master weights.
double sum_of_weights(const learner::Learner& learner) {
  double sum = 0;
  for (const auto& [name, view] : learner.state().masters()) {
    for (std::int64_t i = 0; i < view.numel(); ++i) sum += std::abs(static_cast<double>(view.as<float>()[i]));
  }
  return sum;
}

}  // namespace

TEST_CASE("late rollouts: the same recipe trains on rollouts of the step and on ones a step late") {
  const LengthVerifier verifier;
  const auto on_time = make_training(verifier);
  on_time->trainer.train();

  const double on_time_digest = sum_of_weights(on_time->learner);
  CAPTURE(on_time_digest);
  CHECK(test::close(on_time_digest, kOnTimeDigest, 0, kDigestTolerance));

  double digests[2] = {};
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    // Decoder and learner get one thread each: the two concurrent pools have as many threads as one had.
    const base::ThreadsInScope threads(overlap ? 1 : base::num_threads());
    const auto late = make_training(verifier);
    OneStepLate source(late->trainer.rollouts, kSteps, overlap);
    late->trainer.train(source);
    CHECK(source.versions == std::vector<std::int64_t>{0, 0, 2});  // two updates a step
    CHECK(late->state.step == kSteps);
    CHECK(late->state.policy_version == on_time->state.policy_version);
    CHECK(late->state.prompts_drawn == on_time->state.prompts_drawn);
    digests[overlap ? 1 : 0] = sum_of_weights(late->learner);
    CHECK(test::close(digests[0], kLateDigest, 0, kDigestTolerance));
  }
  CHECK(digests[0] == digests[1]);  // bit for bit
}

TEST_CASE("late rollouts: drained before a learner on the sampler's tensors publishes between updates") {
  const LengthVerifier verifier;
  double digests[2] = {};
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    const auto late = make_training(verifier, {"quant.learner.forward=low_bit"});
    OneStepLate source(late->trainer.rollouts, kSteps, overlap, std::launch::deferred);
    late->trainer.train(source);
    // If the trainer drained only after the last update, version 1 would sample step 2's rollouts.
    CHECK(source.versions == std::vector<std::int64_t>{0, 0, 2});
    digests[overlap ? 1 : 0] = sum_of_weights(late->learner);
  }
  CHECK(digests[0] == digests[1]);  // bit for bit
}

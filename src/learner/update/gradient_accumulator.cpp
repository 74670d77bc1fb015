#include "learner/update/gradient_accumulator.h"

#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "learner/objective/policy_loss.h"

namespace qrl::learner {

namespace {

void require_same_bits(const Tensor& log_probs_M, const std::vector<std::int64_t>& rows,
                       const std::vector<float>& sampler_logprobs) {
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float sampled = sampler_logprobs[static_cast<std::size_t>(rows[i])];
    differ +=
        std::bit_cast<std::uint32_t>(log_probs_M.data_ptr<float>()[i]) == std::bit_cast<std::uint32_t>(sampled) ? 0 : 1;
  }
  QRL_INVARIANT(differ == 0, "rollout.bitwise", "the sampler's log-probs, bit for bit",
                std::to_string(differ) + " of " + std::to_string(rows.size()) + " tokens with different log-probs",
                "report it; a new run with rollout.bitwise: false trains without equal bits");
}

}  // namespace

/// Keeps a forward pass until its loss and backward pass have run. Autograd's graph points into this object, so it
/// cannot be moved.
struct GradientAccumulator::MicroBatchInFlight {
  MicroBatchInFlight(const types::MicroBatch& batch_in, const types::GlobalCounts& counts_in,
                     const LossOptions& loss_in)
      : batch(batch_in), counts(counts_in), loss(loss_in) {}
  MicroBatchInFlight(const MicroBatchInFlight&) = delete;
  MicroBatchInFlight& operator=(const MicroBatchInFlight&) = delete;

  types::MicroBatch batch;
  types::GlobalCounts counts;
  LossOptions loss;
  PackedRows rows;
  TargetRows targets;
  TargetScores scores;
};

GradientAccumulator::GradientAccumulator(TrainableWeights& weights, ForwardEngine& engine, const Publisher& publisher,
                                         MicroBatchPacker& packer)
    : weights_(weights),
      engine_(engine),
      publisher_(publisher),
      packer_(packer),
      sums_(weights.parameters(), weights.ranks()),
      routes_(weights.config()) {}

GradientAccumulator::~GradientAccumulator() = default;

void GradientAccumulator::add(const types::MicroBatch& batch, const types::GlobalCounts& counts,
                              const LossOptions& loss, const ops::SampleParams& sample_params, bool is_last) {
  QRL_INVARIANT(!sums_.begun(), "micro-batch", "an update after the last micro-batch", "another micro-batch");
  auto next = std::make_unique<MicroBatchInFlight>(batch, counts, loss);
  next->rows = packer_.rows(batch);
  next->targets = packer_.targets(next->batch, sample_params);  // targets point into next->batch
  next->targets.entropy_is_trained = loss.kind == LossKind::policy && loss.algorithm.entropy_coef != 0;
  if (next->targets.rows.empty()) return;
  QRL_INVARIANT(counts.response_tokens > 0 && counts.sequences > 0, "micro-batch", "global counts above 0",
                std::to_string(counts.response_tokens));
  if (!engine_.has_room_for(batch.num_tokens())) finish();
  ForwardTask task{next->rows, next->targets, {}, nullptr};
  const model::Snapshot* snapshot = publisher_.for_forward_pass();
  if (is_last) task.layer_done = sums_.from_backward();
  next->scores = engine_.score(weights_.parameters(), snapshot, task);
  finish();  // ends the previous micro-batch
  in_flight_ = std::move(next);
  if (!engine_.works_beside_host()) finish();
}

void GradientAccumulator::finish() {
  const std::unique_ptr<MicroBatchInFlight> micro = std::move(in_flight_);
  if (micro == nullptr) return;
  const TargetScores& scores = micro->scores;
  scores.wait();
  if (engine_.is_bitwise() && micro->loss.at_sampling_weights)
    require_same_bits(scores.log_probs_M, micro->targets.rows, micro->batch.sampler_logprobs);
  if (micro->rows.routes != nullptr && micro->loss.kind == LossKind::policy)
    routes_.add(micro->batch, {micro->rows.routes->used(), micro->rows.routes->own});
  Tensor total = loss_of(*micro);
  if (!std::isfinite(total.item<double>())) {
    loss_is_finite_ = false;
    return;
  }
  if (engine_.gathers_rotated()) sums_.gather();
  total.backward();
}

Tensor GradientAccumulator::loss_of(const MicroBatchInFlight& micro) {
  if (micro.loss.kind == LossKind::policy)
    return policy_loss(micro.batch, micro.targets.rows, micro.scores, micro.counts, micro.loss, statistics_);
  Tensor loss = -micro.scores.log_probs_M.to(torch::kFloat64).sum() / static_cast<double>(micro.counts.response_tokens);
  statistics_.add_share("actor/sft_loss", loss.item<double>());
  return loss;
}

model::WeightViews GradientAccumulator::gradients() {
  finish();
  sums_.rotate_back();
  return weights_.parameters().named().gradients();
}

GradientAccumulator::MiniBatch GradientAccumulator::end() {
  finish();
  const torch::NoGradGuard no_grad;
  sums_.end();
  MiniBatch ended{statistics_.reduce(weights_.world()), !weights_.world().any(!loss_is_finite_)};
  ended.metrics.merge(routes_.reduce(weights_.world()));
  statistics_ = {};
  loss_is_finite_ = true;
  return ended;
}

void GradientAccumulator::restart() {
  in_flight_.reset();
  clear_gradients(weights_.parameters());
  sums_.restart();
  statistics_ = {};
  routes_ = RouteStatistics(weights_.config());
  loss_is_finite_ = true;
}

}  // namespace qrl::learner

#include "learner/objective/mini_batch.h"

#include "base/error.h"
#include "learner/objective/policy_loss.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

std::vector<std::string> policy_metric_names(const LossOptions& loss) {
  // Computes the loss of two made-up tokens to learn the metrics' names.
  types::MicroBatch batch;
  batch.tokens = {0, 0};
  batch.sequence_starts = {0, 1, 2};
  batch.sampler_logprobs = batch.reference_logprobs = batch.old_logprobs = {-1.0F, -1.0F};
  batch.advantages = {1.0F, -1.0F};
  batch.old_entropy = {1.0F, 1.0F};
  if (loss.has_teacher) batch.teacher_logprobs = {-1.0F, -1.0F};
  LossOptions named = loss;  // gets the selection that prepare_mini_batch would set
  named.at_sampling_weights = true;
  named.selection.is_set = needs_old_entropy(loss);
  named.selection.by_entropy = loss.algorithm.top_entropy_quantile < 1;
  named.selection.by_covariance = loss.algorithm.clip_cov.ratio > 0;
  const TargetScores scores{torch::full({2}, -1.0F), torch::ones({2})};
  Statistics statistics;
  (void)policy_loss(batch, {0, 1}, scores, {2, 2}, named, statistics);
  std::vector<std::string> names;
  for (const auto& [name, value] : statistics.reduce(*dist::make_solo())) names.push_back(name);
  return names;
}

bool needs_old_entropy(const LossOptions& loss) { return selects_by_mini_batch(loss.algorithm); }

bool needs_whole_mini_batch(const LossOptions& loss) {
  QRL_INVARIANT(loss.method != nullptr, "loss options", "a correction", "none");
  return loss.method->prepare != nullptr || loss.correction.batch_normalize || needs_old_entropy(loss);
}

namespace {

/// Returns the factor that scales the mini-batch's mean weight, before rejection, to 1 (veRL 0.9.1,
/// rollout_corr_helper.py). The mean is over sequences if the correction's level is `sequence`, else over tokens.
double weight_scale_of(std::span<const types::MicroBatch* const> batches, const LossOptions& loss,
                       dist::Collectives& world) {
  const ObjectiveSettings settings = objective_settings(loss);
  double sums[] = {0, 0};
  for (const types::MicroBatch* one : batches) {
    const types::MicroBatch& batch = *one;
    const std::vector<std::int64_t> rows = counted_rows(batch);
    const auto read = [&](const std::vector<float>& per_token, const char* name) {
      return torch::tensor(counted(per_token, rows, batch.tokens.size(), name), torch::kFloat64);
    };
    const torch::Tensor log_rho =
        log_ratio(read(batch.old_logprobs, "old_logprobs"), read(batch.sampler_logprobs, "sampler_logprobs"));
    const Sequences sequences(sequence_of_rows(batch, rows));
    const torch::Tensor weights_M = settings.method->weights(log_rho, sequences, settings.correction).on_tokens;
    const bool by_sequence = settings.method->level == CorrectionLevel::sequence;
    sums[0] += (by_sequence ? sequences.mean(weights_M) : weights_M).sum().item<double>();
    sums[1] += by_sequence ? (sequences.lengths() > 0).sum().item<double>() : static_cast<double>(rows.size());
  }
  world.all_reduce_sum(std::span<double>(sums));
  return sums[0] > 0 ? sums[1] / sums[0] : 1;
}

}  // namespace

Metrics prepare_mini_batch(std::span<const types::MicroBatch* const> batches, LossOptions& loss,
                           dist::Collectives& world) {
  Metrics metrics;
  if (loss.method->prepare != nullptr) metrics = loss.method->prepare(batches, loss, world);
  if (loss.correction.batch_normalize) {
    loss.weight_scale = weight_scale_of(batches, loss, world);
    metrics["mismatch/weight_scale"] = loss.weight_scale;
  }
  if (needs_old_entropy(loss)) loss.selection = selection_of_mini_batch(batches, loss.algorithm, world);
  return metrics;
}

std::vector<const types::MicroBatch*> pointers_to(std::span<const types::MicroBatch> batches) {
  std::vector<const types::MicroBatch*> pointers;
  for (const types::MicroBatch& batch : batches) pointers.push_back(&batch);
  return pointers;
}

}  // namespace qrl::learner

#include "learner/policy_loss.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "config/keys.h"
#include "dist/collectives.h"

namespace qrl::learner {

std::vector<double> counted(const std::vector<float>& per_token, const std::vector<std::int64_t>& rows,
                            std::size_t num_tokens, const char* name) {
  QRL_INVARIANT(per_token.size() == num_tokens, "micro-batch", std::string(name) + " of N entries",
                std::to_string(per_token.size()));
  std::vector<double> values;
  values.reserve(rows.size());
  for (const std::int64_t row : rows) values.push_back(static_cast<double>(per_token[static_cast<std::size_t>(row)]));
  return values;
}

std::vector<std::int64_t> counted_rows(const types::MicroBatch& batch) {
  std::vector<std::int64_t> rows;
  for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
    if (batch.loss_mask[t] != 0) rows.push_back(static_cast<std::int64_t>(t));
  }
  return rows;
}

std::vector<std::int64_t> positions_of(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows) {
  const auto& starts = batch.sequence_starts;
  std::vector<std::int64_t> positions;
  for (const std::int64_t row : rows) {
    const auto sequence =
        static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), row) - starts.begin()) - 1;
    const std::int64_t idx =
        batch.sequence_idx.empty() ? static_cast<std::int64_t>(sequence) : batch.sequence_idx[sequence];
    positions.push_back((idx << 32) + row - starts[sequence]);
  }
  return positions;
}

namespace {

torch::Tensor sequence_of_rows(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows) {
  const torch::Tensor sequences = torch::empty({static_cast<std::int64_t>(rows.size())}, torch::kInt64);
  const auto& starts = batch.sequence_starts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), rows[i]);
    sequences.data_ptr<std::int64_t>()[i] = next - starts.begin() - 1;
  }
  return sequences;
}

std::span<const double> doubles(const torch::Tensor& values) {
  return {values.data_ptr<double>(), static_cast<std::size_t>(values.numel())};
}

double total(const torch::Tensor& values) { return values.sum().item<double>(); }

torch::Tensor on_side(const Surrogate& surrogate, ClipSide side) {
  return (surrogate.side == static_cast<int>(side)).to(torch::kFloat64);
}

ObjectiveTokens objective_tokens(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                                 const TargetScores& scores, bool with_reference) {
  const auto read = [&](const std::vector<float>& per_token, const char* name) {
    return torch::tensor(counted(per_token, rows, batch.tokens.size(), name), torch::kFloat64);
  };
  ObjectiveTokens tokens{scores.log_probs_M.to(torch::kFloat64),
                         scores.entropy_M.to(torch::kFloat64),
                         {},
                         read(batch.sampler_logprobs, "sampler_logprobs"),
                         {},
                         read(batch.advantages, "advantages"),
                         Sequences(sequence_of_rows(batch, rows))};
  tokens.old_log_probs =
      batch.old_logprobs.empty() ? tokens.log_probs.detach() : read(batch.old_logprobs, "old_logprobs");
  if (!batch.old_entropy.empty()) {
    tokens.old_entropy = read(batch.old_entropy, "old_entropy");
    tokens.positions = torch::tensor(positions_of(batch, rows));
  }
  if (with_reference) tokens.reference_log_probs = read(batch.reference_logprobs, "reference_logprobs");
  return tokens;
}

/// Adds statistics of tokens left out by rejection and selection.
void add_rejections(const ObjectiveTokens& tokens, const Objective& terms, Statistics& statistics) {
  const Sequences& sequences = tokens.sequences;
  const auto num_tokens = static_cast<double>(sequences.num_tokens());
  const double num_sequences = total(sequences.lengths() > 0);
  const auto add_tokens = [&](const char* name, const torch::Tensor& left_out) {
    if (left_out.defined()) statistics.add_mean(name, total(left_out), num_tokens);
  };
  if (terms.kept.tokens.defined()) {
    const torch::Tensor rejected = terms.kept.tokens.logical_not();
    add_tokens("mismatch/rs_masked_fraction", rejected);
    statistics.add_mean("mismatch/rs_seq_masked_fraction", total(sequences.sum(rejected.to(torch::kFloat64)) > 0),
                        num_sequences);
  }
  if (terms.kept.vetoed.defined())
    statistics.add_mean("mismatch/veto_seq_fraction", total(terms.kept.vetoed), num_sequences);
  if (terms.selected.masked_sequences.defined())
    statistics.add_mean("actor/off_policy_masked_fraction", total(terms.selected.masked_sequences), num_sequences);
  add_tokens("actor/low_entropy_masked_fraction", terms.selected.low_entropy);
  add_tokens("actor/cov_masked_fraction", terms.selected.covariant);
}

void add_statistics(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Objective& terms,
                    Statistics& statistics) {
  statistics.add_share("actor/pg_loss", terms.policy.item<double>());
  if (terms.kl.defined()) statistics.add_share("actor/kl_loss", terms.kl.item<double>());
  const torch::Tensor log_probs_now = tokens.log_probs.detach(), entropy_now = tokens.entropy.detach();
  statistics.add_policy_tokens({doubles(log_probs_now), doubles(tokens.old_log_probs),
                                doubles(tokens.sampler_log_probs), doubles(entropy_now),
                                doubles(terms.weights.on_tokens)});
  const Sequences& sequences = tokens.sequences;
  const auto num_tokens = static_cast<double>(sequences.num_tokens());
  const double num_sequences = total(sequences.lengths() > 0);
  const auto add_side = [&](const char* name, ClipSide side) {
    statistics.add_mean(name, total(on_side(terms.surrogate, side)), num_tokens);
  };
  add_side("actor/pg_clipfrac_high", ClipSide::high);
  add_side("actor/pg_clipfrac_low", ClipSide::low);
  if (settings.surrogate.dual_clip) add_side("actor/pg_clipfrac_dual", ClipSide::dual);
  const torch::Tensor any_clipped = sequences.sum((terms.surrogate.side != 0).to(torch::kFloat64)) > 0;
  statistics.add_mean("actor/clipped_sequence_fraction", total(any_clipped), num_sequences);
  if (settings.method->level != CorrectionLevel::none) {
    statistics.add_mean(terms.weights.rejects ? "mismatch/dropped_fraction" : "mismatch/capped_fraction",
                        total(terms.weights.acted), num_tokens);
  }
  add_rejections(tokens, terms, statistics);
  const torch::Tensor negative = tokens.advantages < 0;
  constexpr double kRare = 1e-3;
  statistics.add_mean("actor/negative_rare_fraction", total(negative & (tokens.old_log_probs < std::log(kRare))),
                      total(negative));
  if (terms.truncation.defined()) {
    const torch::Tensor high = 1 + settings.surrogate.clip.high + torch::zeros_like(terms.truncation);
    const torch::Tensor freed =
        (tokens.advantages > 0) & (terms.surrogate.ratio > high) & (terms.surrogate.ratio <= high / terms.truncation);
    statistics.add_mean("acr/freed_fraction", total(freed), num_tokens);
    statistics.add_mean("acr/r_mean", total(terms.truncation), num_tokens);
    statistics.add_mean("acr/r_below_1_fraction", total(terms.truncation < 1), num_tokens);
    statistics.add_max("acr/rho_max",
                       log_ratio(tokens.old_log_probs, tokens.sampler_log_probs).exp().max().item<double>());
  }
  for (const AddStatistics add : {settings.loss->add_statistics, settings.method->add_statistics}) {
    if (add != nullptr) add(tokens, settings, terms, statistics);
  }
}

}  // namespace

torch::Tensor policy_loss(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows,
                          const TargetScores& scores, const types::GlobalCounts& counts, const LossOptions& loss,
                          Statistics& statistics) {
  const ObjectiveSettings settings = objective_settings(loss);
  const ObjectiveTokens tokens = objective_tokens(batch, rows, scores, settings.kl_loss_coef != 0);
  const Objective terms =
      objective(tokens, settings, {counts.response_tokens, counts.sequences, loss.max_response_length});
  add_statistics(tokens, settings, terms, statistics);
  if (!batch.teacher_logprobs.empty()) {
    const std::vector<double> teacher = counted(batch.teacher_logprobs, rows, batch.tokens.size(), "teacher_logprobs");
    double liked_more = 0;
    for (std::size_t i = 0; i < teacher.size(); ++i)
      liked_more += tokens.old_log_probs[static_cast<std::int64_t>(i)].item<double>() - teacher[i];
    statistics.add_mean("teacher/k1_kl", liked_more, static_cast<double>(teacher.size()));
  }
  return terms.total;
}

std::vector<std::string> policy_metric_names(const LossOptions& loss) {
  // Two made-up tokens produce the names, so that no list can become outdated.
  types::MicroBatch batch;
  batch.tokens = {0, 0};
  batch.sequence_starts = {0, 1, 2};
  batch.sampler_logprobs = batch.reference_logprobs = batch.old_logprobs = {-1.0F, -1.0F};
  batch.advantages = {1.0F, -1.0F};
  batch.old_entropy = {1.0F, 1.0F};
  if (!loss.algorithm.teacher.path.empty()) batch.teacher_logprobs = {-1.0F, -1.0F};
  LossOptions named = loss;  // with what only a mini-batch decides
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

LossOptions policy_options(const config::Recipe& recipe) {
  const config::Catalog& catalog = recipe.keys->catalog();
  LossOptions options;
  // The catalog's lists hold these types (config/choice.h).
  options.loss = static_cast<const PolicyLoss*>(catalog.losses.find(recipe.algorithm.name));
  options.method = static_cast<const Correction*>(catalog.corrections.find(recipe.rollout_correction.method));
  options.kl = static_cast<const KlEstimator*>(catalog.kl_estimators.find(recipe.algorithm.kl_loss_type));
  options.algorithm = recipe.algorithm;
  options.correction = recipe.rollout_correction;
  options.own = recipe.own;
  options.max_response_length = recipe.data.max_response_length;
  return options;
}

bool needs_old_entropy(const LossOptions& loss) { return selects_by_mini_batch(loss.algorithm); }

bool needs_whole_mini_batch(const LossOptions& loss) {
  QRL_INVARIANT(loss.method != nullptr, "loss options", "a correction that policy_options resolved", "none");
  return loss.method->prepare != nullptr || loss.correction.batch_normalize || needs_old_entropy(loss);
}

namespace {

/// Computes 1 over the mini-batch's mean weight before rejection, over sequences or tokens as the correction weighs
/// them (veRL 0.9.1, rollout_corr_helper.py).
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
    sums[0] += total(by_sequence ? sequences.mean(weights_M) : weights_M);
    sums[1] += by_sequence ? total(sequences.lengths() > 0) : static_cast<double>(rows.size());
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

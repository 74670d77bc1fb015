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

/// The counted tokens (rows of `batch`) with their scores under the policy now. Without old log-probs in the batch
/// π_old is π_θ, detached. An invariant error names an array of another size than N.
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
  if (with_reference) tokens.reference_log_probs = read(batch.reference_logprobs, "reference_logprobs");
  return tokens;
}

/// Adds a micro-batch's part of the metrics of algorithms.md.
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
  if (terms.truncation.defined()) {
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
  return terms.total;
}

std::vector<std::string> policy_metric_names(const LossOptions& loss) {
  // Those of a made-up token: no list of names can fall behind what is added.
  types::MicroBatch batch;
  batch.tokens = {0};
  batch.sequence_starts = {0, 1};
  batch.sampler_logprobs = batch.reference_logprobs = {-1.0F};
  batch.advantages = {1.0F};
  const TargetScores scores{torch::full({1}, -1.0F), torch::ones({1})};
  Statistics statistics;
  (void)policy_loss(batch, {0}, scores, {1, 1}, loss, statistics);
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

bool needs_whole_mini_batch(const LossOptions& loss) {
  QRL_INVARIANT(loss.method != nullptr, "loss options", "a correction that policy_options resolved", "none");
  return loss.method->prepare != nullptr;
}

Metrics prepare_correction(std::span<const types::MicroBatch> batches, LossOptions& loss, dist::Collectives& world) {
  return needs_whole_mini_batch(loss) ? loss.method->prepare(batches, loss, world) : Metrics();
}

}  // namespace qrl::learner

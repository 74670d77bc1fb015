#include "learner/objective/objective.h"

#include "base/error.h"

namespace qrl::learner {

namespace {

/// Returns which tokens' probability moved in the advantage's direction since π_old: up where A > 0, else down.
torch::Tensor moved_ahead(const ObjectiveTokens& tokens) {
  const torch::Tensor moved = tokens.log_probs.detach() - tokens.old_log_probs;
  return torch::where(tokens.advantages > 0, moved, -moved) > 0;
}

}  // namespace

ObjectiveSettings objective_settings(const LossOptions& options) {
  QRL_INVARIANT(options.loss != nullptr && options.method != nullptr, "loss options", "a loss and a correction",
                "none");
  const AlgorithmOptions& algorithm = options.algorithm;
  const CorrectionOptions& correction = options.correction;
  ObjectiveSettings settings;
  settings.loss = options.loss;
  settings.method = options.method;
  SurrogateSettings& surrogate = settings.surrogate;
  surrogate.clip = {algorithm.clip_ratio_low.value_or(0), algorithm.clip_ratio_high.value_or(0)};  // null: no bound
  if (algorithm.clip_ratio_c.value_or(0) != 0) surrogate.dual_clip = algorithm.clip_ratio_c;
  surrogate.token_form = options.method->level == CorrectionLevel::token || correction.rs == RsLevel::token ||
                         selects_by_mini_batch(algorithm);
  surrogate.moved_only = algorithm.bound_moved_only;
  if (options.loss->read_own != nullptr) options.loss->read_own(options.own, surrogate);

  settings.correction.threshold = correction.threshold.value_or(0);
  settings.correction.threshold_low = correction.threshold_low.value_or(0);
  settings.correction.blend = options.blend;
  if (options.method->read_own != nullptr) options.method->read_own(options.own, settings.correction);
  settings.weight_scale = options.weight_scale;
  settings.rejection = {correction.rs, correction.rs_stat, correction.rs_threshold.value_or(0),
                        correction.rs_threshold_low.value_or(0), correction.token_veto_threshold.value_or(0)};
  settings.selection = {algorithm.off_policy_mask_threshold, options.selection};
  settings.behaviour_in_ratio = correction.behaviour_in_ratio;
  settings.is_first_update = options.at_sampling_weights;
  settings.loss_agg_mode = algorithm.loss_agg_mode.value();
  settings.kl_loss_coef = algorithm.kl_loss_coef;
  settings.kl = options.kl;
  QRL_INVARIANT(options.kl != nullptr || algorithm.kl_loss_coef == 0, "loss options", "a KL estimator", "none");
  settings.entropy_coef = algorithm.entropy_coef;
  return settings;
}

Objective objective(const ObjectiveTokens& tokens, const ObjectiveSettings& settings,
                    const Denominators& denominators) {
  const torch::Tensor log_rho = log_ratio(tokens.old_log_probs, tokens.sampler_log_probs).detach();
  const torch::Tensor shares = token_shares(settings.loss_agg_mode, tokens.sequences, denominators);
  Objective terms;
  terms.weights = settings.method->weights(log_rho, tokens.sequences, settings.correction);
  if (settings.weight_scale != 1) terms.weights.on_tokens = terms.weights.on_tokens * settings.weight_scale;
  terms.kept = kept_tokens(log_rho, tokens.sequences, settings.rejection);
  if (terms.kept.tokens.defined())
    terms.weights.on_tokens = terms.weights.on_tokens.masked_fill(terms.kept.tokens.logical_not(), 0);
  SurrogateInput input{
      tokens, settings.is_around_sampler() ? tokens.sampler_log_probs : tokens.old_log_probs, {}, {}, {}};
  if (settings.surrogate.moved_only && settings.is_around_sampler()) input.moved = moved_ahead(tokens);
  input.log_ratio = log_ratio(tokens.log_probs, input.anchor);
  if (settings.correction.acr) {
    terms.truncation = truncation_factor(log_rho, settings.correction.threshold);
    input.upper_relief = 1 / terms.truncation;
  }
  terms.surrogate = settings.loss->surrogate(input, settings.surrogate);
  terms.selected = select_tokens(tokens, terms.surrogate.side != 0, settings.selection);
  torch::Tensor weights = terms.weights.on_tokens;
  if (terms.selected.tokens.defined()) weights = weights.masked_fill(terms.selected.tokens.logical_not(), 0);
  terms.policy = -(shares * weights * terms.surrogate.objective).sum();
  terms.total = terms.policy;
  if (settings.kl_loss_coef != 0) {
    terms.kl = (shares * kl_penalty(tokens, *settings.kl)).sum();
    terms.total = terms.total + settings.kl_loss_coef * terms.kl;
  }
  if (settings.entropy_coef != 0) terms.total = terms.total - settings.entropy_coef * (shares * tokens.entropy).sum();
  return terms;
}

torch::Tensor token_shares(LossAggMode mode, const Sequences& sequences, const Denominators& denominators) {
  QRL_INVARIANT(denominators.tokens > 0 && denominators.sequences > 0, "loss aggregation", "tokens in the loss",
                std::to_string(denominators.tokens));
  const auto num_sequences = static_cast<double>(denominators.sequences);
  const auto all = [&](double share) { return torch::full({sequences.num_tokens()}, share, torch::kFloat64); };
  switch (mode) {
    case LossAggMode::token_mean:
      return all(1 / static_cast<double>(denominators.tokens));
    case LossAggMode::token_sum:
      return all(1);
    case LossAggMode::seq_mean_token_sum:
      return all(1 / num_sequences);
    case LossAggMode::seq_mean_token_sum_norm:
      QRL_INVARIANT(denominators.max_response_length > 0, "seq-mean-token-sum-norm", "data.max_response_length", "0");
      return all(1 / (num_sequences * static_cast<double>(denominators.max_response_length)));
    case LossAggMode::seq_mean_token_mean:
      break;
  }
  return 1 / (sequences.on_tokens(sequences.lengths()) * num_sequences);
}

}  // namespace qrl::learner

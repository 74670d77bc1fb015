#include "learner/objective/objective.h"

#include "base/error.h"
#include "config/algorithms.h"
#include "learner/objective/kl.h"
#include "learner/objective/registry.h"

namespace qrl::learner {

ObjectiveSettings objective_settings(const config::AlgorithmRecipe& algorithm,
                                     const config::CorrectionRecipe& correction, double ais_alpha) {
  if (const auto objection = config::objection_to(algorithm, correction)) {
    QRL_INVARIANT(false, objection->key, objection->expected, objection->got, objection->advice);
  }
  const config::AlgorithmFacts& loss = config::facts_of(algorithm.name);
  const config::CorrectionFacts& method = config::facts_of(correction.method);
  ObjectiveSettings settings;
  settings.algorithm = algorithm.name;
  SurrogateSettings& surrogate = settings.surrogate;
  if (algorithm.name == config::AlgorithmName::tbpo) {
    surrogate.clip = {algorithm.tbpo.seq_clip_ratio_low, algorithm.tbpo.seq_clip_ratio_high};
    surrogate.negative_clip = {algorithm.tbpo.neg_seq_clip_ratio_low, algorithm.tbpo.neg_seq_clip_ratio_high};
  } else {
    surrogate.clip = {algorithm.clip_ratio_low.value_or(*loss.clip_ratio_low),
                      algorithm.clip_ratio_high.value_or(*loss.clip_ratio_high)};
  }
  const double dual_clip = algorithm.clip_ratio_c.value_or(loss.clip_ratio_c);
  if (dual_clip != 0) surrogate.dual_clip = dual_clip;
  surrogate.token_form = method.level == config::CorrectionLevel::token;

  settings.correction.method = correction.method;
  settings.correction.threshold = correction.threshold.value_or(method.threshold.value_or(0));
  settings.correction.threshold_low = correction.threshold_low.value_or(method.threshold_low.value_or(0));
  settings.correction.acr = correction.acr;
  if (correction.method == config::CorrectionMethod::tbpo) {
    settings.correction.threshold = algorithm.tbpo.seq_tis_imp_ratio_cap;
    settings.correction.drop = algorithm.tbpo.mismatch_action == config::MismatchAction::drop;
  } else if (correction.method == config::CorrectionMethod::ais) {
    settings.correction.threshold = correction.ais.cap;
    settings.correction.ais_alpha = ais_alpha;
  }
  settings.behaviour_in_ratio = correction.behaviour_in_ratio;
  settings.loss_agg_mode = algorithm.loss_agg_mode.value_or(loss.loss_agg_mode);
  settings.kl_loss_coef = algorithm.kl_loss_coef;
  settings.kl_loss_type = algorithm.kl_loss_type;
  settings.entropy_coef = algorithm.entropy_coef;
  return settings;
}

Objective objective(const ObjectiveTokens& tokens, const ObjectiveSettings& settings,
                    const Denominators& denominators) {
  const torch::Tensor log_rho = log_ratio(tokens.old_log_probs, tokens.sampler_log_probs).detach();
  const torch::Tensor shares = token_shares(settings.loss_agg_mode, tokens.sequences, denominators);
  Objective terms;
  terms.weights = correction_of(settings.correction.method)(log_rho, tokens.sequences, settings.correction);
  SurrogateInput input{tokens, {}, {}};
  input.log_ratio =
      log_ratio(tokens.log_probs, settings.behaviour_in_ratio ? tokens.sampler_log_probs : tokens.old_log_probs);
  if (settings.correction.acr) {
    terms.truncation = truncation_factor(log_rho, settings.correction.threshold);
    input.upper_relief = 1 / terms.truncation;
  }
  terms.surrogate = surrogate_of(settings.algorithm)(input, settings.surrogate);
  terms.policy = -(shares * terms.weights.on_tokens * terms.surrogate.objective).sum();
  terms.total = terms.policy;
  if (settings.kl_loss_coef != 0) {
    terms.kl = (shares * kl_penalty(tokens.log_probs, tokens.reference_log_probs, settings.kl_loss_type)).sum();
    terms.total = terms.total + settings.kl_loss_coef * terms.kl;
  }
  if (settings.entropy_coef != 0) terms.total = terms.total - settings.entropy_coef * (shares * tokens.entropy).sum();
  return terms;
}

}  // namespace qrl::learner

// Owns DPPO (arXiv 2602.04879), which bounds a token's change in probability instead of its ratio. Ratio and bound are
// relative to μ, so no correction is applied. Before any update the mask acts where sampler and learner differ. It then
// is a step of descent on KL(μ ‖ π) (docs/reference/algorithms.md, "A bound around the sampler").
#include "learner/objective/policy_losses.h"

namespace qrl::learner {

namespace {

const config::NumberParam kTvDelta{
    "algorithm.dppo_tv.delta", config::kPositive, 0.15,
    "largest distance of a token's probability from the sampler's in the advantage's direction"};
const config::NumberParam kTvCap{"algorithm.dppo_tv.ratio_cap", config::kAtLeast1, 20, "largest weight of a token"};
const config::NumberParam kKlDelta{
    "algorithm.dppo_kl.delta", config::kPositive, 0.05,
    "largest Bernoulli KL of a token between sampler and policy, in the advantage's direction"};
const config::NumberParam kKlCap{"algorithm.dppo_kl.ratio_cap", config::kAtLeast1, 20, "largest weight of a token"};

/// Computes J_t = M_t·sg(min(π_θ/μ, c))·A·log π_θ, where M_t is 0 for the tokens in `outside`, else 1.
Surrogate masked_surrogate(const SurrogateInput& input, const SurrogateSettings& settings, torch::Tensor outside) {
  if (input.moved.defined()) outside = outside & input.moved;
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor now = input.log_ratio.detach().exp();
  torch::Tensor side = torch::zeros(now.sizes(), torch::kUInt8);
  side.masked_fill_(outside & (advantages > 0), static_cast<int>(ClipSide::high));
  side.masked_fill_(outside & (advantages <= 0), static_cast<int>(ClipSide::low));
  const torch::Tensor weight = now.clamp_max(settings.ratio_cap).masked_fill(outside, 0);
  return {weight * advantages * input.tokens.log_probs, side, now};
}

/// Masks tokens with π_θ − μ > δ where A > 0, and tokens with π_θ − μ < −δ elsewhere.
Surrogate total_variation_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor change = input.tokens.log_probs.detach().exp() - input.anchor.exp();
  const torch::Tensor ahead = torch::where(input.tokens.advantages > 0, change, -change);
  return masked_surrogate(input, settings, ahead > settings.divergence);
}

/// Masks tokens whose probability moved in the advantage's direction and whose KL(Bernoulli(m) ‖ Bernoulli(p)) exceeds
/// δ. The KL is m·log(m/p) + (1 − m)·log((1 − m)/(1 − p)), with m = μ and p = π_θ.
Surrogate bernoulli_kl_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor log_p = input.tokens.log_probs.detach(), log_m = input.anchor;
  const torch::Tensor p = log_p.exp(), m = log_m.exp();
  // expm1 keeps 1 − p exact near p = 1. Log-probs rounded above 0 count as 0. At m = 1 the second term is 0.
  const torch::Tensor rest = -torch::expm1(log_p.clamp_max(0)), m_rest = -torch::expm1(log_m.clamp_max(0));
  const torch::Tensor kl = m * (log_m - log_p) + torch::xlogy(m_rest, m_rest) - torch::xlogy(m_rest, rest);
  const torch::Tensor moved = torch::where(input.tokens.advantages > 0, p > m, p < m);
  return masked_surrogate(input, settings, moved & (kl > settings.divergence));
}

void read_tv(const config::ParamValues& own, SurrogateSettings& settings) {
  settings.divergence = own.of(kTvDelta);
  settings.ratio_cap = own.of(kTvCap);
}

void read_kl(const config::ParamValues& own, SurrogateSettings& settings) {
  settings.divergence = own.of(kKlDelta);
  settings.ratio_cap = own.of(kKlCap);
}

std::vector<config::Constraint> constraints_of_dppo() {
  std::vector<config::Constraint> constraints = constraints_of_weighted_log_probs();
  constexpr const char* kBound =
      "this loss bounds probabilities, with algorithm.dppo_….delta: set it to null or delete it";
  constraints.push_back({"algorithm.clip_ratio_low", {"null"}, kBound});
  constraints.push_back({"algorithm.clip_ratio_high", {"null"}, kBound});
  constraints.push_back(
      {"rollout_correction.method",
       {"none"},
       "this loss already uses ratios to the sampler, so a correction would count the gap twice: set it to none"});
  return constraints;
}

std::vector<config::KeyDefault> defaults_of_dppo() {
  return {{"algorithm.clip_ratio_c", "0"},
          {"algorithm.loss_agg_mode", "seq-mean-token-sum-norm"},
          {"algorithm.norm_adv_by_std", "false"}};
}

}  // namespace

std::vector<config::Constraint> constraints_of_weighted_log_probs() {
  return {
      {"algorithm.clip_ratio_c", {"0.0"}, "the dual clip needs a clipped ratio: set it to 0"},
      {"rollout_correction.acr", {"false"}, "this loss has no upper clip bound to raise: set it to false"},
      {"rollout_correction.behaviour_in_ratio", {"false"}, "it needs a loss that clips token ratios: set it to false"}};
}

extern const PolicyLoss dppo_tv_loss;
const PolicyLoss dppo_tv_loss{
    {.word = "dppo_tv",
     .what =
         "log-probs weighted by ratios to the sampler, within a bound on a probability's distance from the sampler's",
     .paper = "DPPO, arXiv 2602.04879",
     .defaults = defaults_of_dppo(),
     .constraints = constraints_of_dppo(),
     .params = {kTvDelta, kTvCap},
     .around_sampler = true},
    total_variation_surrogate,
    read_tv};

extern const PolicyLoss dppo_kl_loss;
const PolicyLoss dppo_kl_loss{{.word = "dppo_kl",
                               .what = "like dppo_tv, but within a bound on the Bernoulli KL of a token",
                               .paper = "DPPO, arXiv 2602.04879",
                               .defaults = defaults_of_dppo(),
                               .constraints = constraints_of_dppo(),
                               .params = {kKlDelta, kKlCap},
                               .around_sampler = true},
                              bernoulli_kl_surrogate,
                              read_kl};

}  // namespace qrl::learner

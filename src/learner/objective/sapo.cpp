#include "learner/objective/objective.h"
#include "learner/objective/policy_losses.h"
#include "learner/objective/statistics.h"

namespace qrl::learner {

namespace {

const config::NumberParam kTauPositive{"algorithm.sapo.tau_pos", config::kPositive, 1,
                                       "temperature of the gate where the advantage is above 0"};
const config::NumberParam kTauNegative{"algorithm.sapo.tau_neg", config::kPositive, 1.05,
                                       "temperature of the gate elsewhere", true};

torch::Tensor temperatures(const torch::Tensor& advantages, const SurrogateSettings& settings) {
  return torch::where(advantages > 0, torch::full_like(advantages, settings.tau_positive),
                      torch::full_like(advantages, settings.tau_negative));
}

/// Computes J_t = (4/τ)·σ(τ·(R_t − 1))·A with τ chosen by the sign of A (Gao et al. 2025, SAPO, eq. 5 and 6). At R = 1
/// its gradient equals that of R·A.
Surrogate soft_gate_surrogate(const SurrogateInput& input, const SurrogateSettings& settings) {
  const torch::Tensor& advantages = input.tokens.advantages;
  const torch::Tensor ratio = input.log_ratio.exp(), now = ratio.detach();
  const torch::Tensor tau = temperatures(advantages, settings);
  return {4 / tau * torch::sigmoid(tau * (ratio - 1)) * advantages, torch::zeros(now.sizes(), torch::kUInt8), now};
}

void read_temperatures(const config::ParamValues& own, SurrogateSettings& settings) {
  settings.tau_positive = own.of(kTauPositive);
  settings.tau_negative = own.of(kTauNegative);
}

/// Adds metrics of the gate's factor on the gradient of R·A: 4σ(1 − σ), which is 1 at R = 1.
void add_gate(const ObjectiveTokens& tokens, const ObjectiveSettings& settings, const Objective& terms,
              Statistics& statistics) {
  const torch::Tensor tau = temperatures(tokens.advantages, settings.surrogate);
  const torch::Tensor sigma = torch::sigmoid(tau * (terms.surrogate.ratio - 1)), gate = 4 * sigma * (1 - sigma);
  const auto count = static_cast<double>(tokens.sequences.num_tokens());
  constexpr double kFelt = 0.99;
  statistics.add_mean("sapo/gate_mean", gate.sum().item<double>(), count);
  statistics.add_mean("sapo/damped_fraction", (gate < kFelt).sum().item<double>(), count);
}

std::vector<config::Constraint> constraints_of_sapo() {
  std::vector<config::Constraint> constraints = constraints_of_weighted_log_probs();
  constexpr const char* kGate = "a soft gate replaces the clip: set it to null or delete it";
  constraints.push_back({"algorithm.clip_ratio_low", {"null"}, kGate});
  constraints.push_back({"algorithm.clip_ratio_high", {"null"}, kGate});
  return constraints;
}

}  // namespace

extern const PolicyLoss sapo_loss;
const PolicyLoss sapo_loss{
    {.word = "sapo",
     .what = "token ratios with a soft gate instead of the clip",
     .paper = "Gao et al. 2025, SAPO",
     .defaults = {{"algorithm.clip_ratio_c", "0"},
                  {"algorithm.loss_agg_mode", "seq-mean-token-mean"},
                  {"algorithm.norm_adv_by_std", "true"}},
     .constraints = constraints_of_sapo(),
     .params = {kTauPositive, kTauNegative},
     .aliases = {{"sapo_temperature_pos", "algorithm.sapo.tau_pos", "with algorithm.name: sapo"},
                 {"sapo_temperature_neg", "algorithm.sapo.tau_neg", "with algorithm.name: sapo"}},
     .needs_updates = true},
    soft_gate_surrogate,
    read_temperatures,
    add_gate};

}  // namespace qrl::learner

#include "learner/objective/corrections.h"

namespace qrl::learner {

namespace {

const config::FlagParam kAcr{"rollout_correction.acr", false,
                             "raise the upper clip bound by the factor by which a token's weight was truncated (QuRL's "
                             "adaptive clipping range)"};

void read_acr(const config::ParamValues& own, CorrectionSettings& settings) { settings.acr = own.of(kAcr); }

/// Weights a token by min(ρ_t, C) (Yao et al. 2025, FlashRL: truncated importance sampling per token).
CorrectionWeights truncated_importance(const torch::Tensor& log_rho, const Sequences&,
                                       const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  return {rho.clamp_max(settings.threshold), rho > settings.threshold, {}, false};
}

}  // namespace

torch::Tensor truncation_factor(const torch::Tensor& log_rho, double threshold) {
  return (threshold * (-log_rho).exp()).clamp_max(1);
}

extern const Correction tis_correction;
const Correction tis_correction{{.word = "tis",
                                 .what = "truncated importance sampling: a token's ratio, at most the threshold",
                                 .paper = "Yao et al. 2025, FlashRL",
                                 .defaults = {{"rollout_correction.threshold", "2"}},
                                 .constraints = constraints_of_correction("", true),
                                 .params = {kAcr}},
                                CorrectionLevel::token,
                                truncated_importance,
                                read_acr};

}  // namespace qrl::learner

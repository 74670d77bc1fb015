#include "learner/objective/corrections.h"

namespace qrl::learner {

namespace {

/// Weights each token of a sequence by Π ρ_t if that is at most `threshold`, else by 0 (masked importance sampling;
/// threshold 3: TRL's). log Π ρ_t is also clamped to ±20.
CorrectionWeights masked_product(const torch::Tensor& log_rho, const Sequences& sequences,
                                 const CorrectionSettings& settings) {
  const torch::Tensor product_S = sequences.sum(log_rho).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
  const torch::Tensor rejected_S = product_S > settings.threshold;
  return {sequences.on_tokens(product_S.masked_fill(rejected_S, 0)), sequences.on_tokens(rejected_S), {}, true};
}

}  // namespace

extern const Correction mis_prod_correction;
const Correction mis_prod_correction{
    {.word = "mis_prod",
     .what = "the product of a sequence's ratios where it is at most the threshold, else 0",
     .paper = "",
     .defaults = {{"rollout_correction.threshold", "3"}},
     .constraints = constraints_of_correction("", true)},
    CorrectionLevel::sequence,
    masked_product};

}  // namespace qrl::learner

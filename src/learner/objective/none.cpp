#include "learner/objective/corrections.h"

namespace qrl::learner {

namespace {

CorrectionWeights no_correction(const torch::Tensor& log_rho, const Sequences&, const CorrectionSettings&) {
  return {torch::ones_like(log_rho), torch::zeros_like(log_rho, torch::kBool), {}, false};
}

}  // namespace

extern const Correction none_correction;
const Correction none_correction{
    {.word = "none",
     .what = "every weight is 1",
     .paper = "",
     .constraints = {{"rollout_correction.threshold", {"null"}, "it has no effect: set it to null or delete it"},
                     {"rollout_correction.threshold_low", {"null"}, "it has no effect: set it to null or delete it"}}},
    CorrectionLevel::none,
    no_correction};

}  // namespace qrl::learner

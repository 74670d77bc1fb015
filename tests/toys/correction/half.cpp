#include "toys/correction/half.h"

namespace qrl::test {

namespace {

/// Returns 0.5 for every weight.
learner::CorrectionWeights half_weights(const torch::Tensor& log_rho, const learner::Sequences&,
                                        const learner::CorrectionSettings&) {
  return {torch::full_like(log_rho, 0.5), torch::ones_like(log_rho, torch::kBool), {}, false};
}

}  // namespace

const learner::Correction half{
    {.word = "half",
     .what = "every weight is 0.5",
     .constraints = learner::constraints_of_correction("it has no threshold: delete it", true)},
    learner::CorrectionLevel::token,
    half_weights};

}  // namespace qrl::test

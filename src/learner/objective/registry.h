// Owns the one list of losses and corrections: a recipe's words to functions. Knows no formula.
#pragma once

#include "config/recipe.h"
#include "learner/objective/corrections.h"
#include "learner/objective/policy_losses.h"

namespace qrl::learner {

using SurrogateFunction = Surrogate (*)(const SurrogateInput&, const SurrogateSettings&);
SurrogateFunction surrogate_of(config::AlgorithmName name);

using CorrectionFunction = CorrectionWeights (*)(const torch::Tensor& log_rho, const Sequences&,
                                                 const CorrectionSettings&);
CorrectionFunction correction_of(config::CorrectionMethod method);

}  // namespace qrl::learner

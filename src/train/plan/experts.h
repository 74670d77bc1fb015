#pragma once

#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// Throws an input error if the recipe's learner or sampler is on a GPU and the model is a mixture of experts.
void require_cpu_for_experts(const config::Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

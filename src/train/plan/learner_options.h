#pragma once

#include "config/recipe.h"
#include "learner/options.h"

namespace qrl::train {

learner::OptimizerOptions optimizer_options(const config::OptimRecipe& optim);
learner::LearnerOptions learner_options(const config::Recipe& recipe);
/// Returns the loss, correction and KL estimator that a resolved recipe names, with their settings.
learner::LossOptions loss_options(const config::Recipe& recipe);

}  // namespace qrl::train

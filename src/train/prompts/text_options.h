#pragma once

#include "data/chat_template.h"
#include "data/row.h"
#include "rollout/rollout.h"
#include "tasks/environment/environment.h"
#include "tasks/generator.h"
#include "tasks/verifier.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Returns how to read rows. Training files are filtered by data.filter, held-out files by data.val_filter.
data::RowOptions row_options(const DataRecipe& recipe, tasks::Split split = tasks::Split::train);

/// Makes the recipe's environment, if it has one, whose program then starts at the first use.
tasks::VerifierOptions verifier_options(const Recipe& recipe);
tasks::EnvironmentOptions environment_options(const Recipe& recipe);

}  // namespace qrl::train

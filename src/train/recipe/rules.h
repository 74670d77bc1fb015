#pragma once

#include "config/errors.h"
#include "config/rules.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Names a recipe's use. Each use checks fewer rules than the use above it.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< a command without a loss: skips the loss's rules
  record,    ///< a checkpoint, perhaps of an older version: also allows keys without effect, except those of --set
};

/// Adds an error for every broken rule. `complete` also requires a model and training data.
void check_rules(const Recipe& recipe, const config::Origins& origins, bool complete, RecipeUse use,
                 config::Errors& errors);

}  // namespace qrl::train

// Owns the rules between keys.
#pragma once

#include "config/faults.h"
#include "config/keys/rule_book.h"
#include "config/recipe.h"

namespace qrl::config {

/// Names a recipe's use; each checks fewer rules than the one before.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< a command without a loss, whose rules are skipped
  record,    ///< a checkpoint's, perhaps older: also allows keys without effect, except by --set
};

/// Adds every broken rule; `complete`: also requires a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults);

}  // namespace qrl::config

// Owns the rules between keys, with places of faults.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/faults.h"
#include "config/recipe.h"

namespace qrl::config {

struct Origins {
  std::string whole;                          ///< the recipe's name, for keys without a source
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> refused;              ///< keys with refused values, whose rules are skipped
};

/// Names a recipe's use; each checks fewer rules than the one before.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< a command without a loss, whose rules are skipped
  record,    ///< a checkpoint's, perhaps older: also allows keys without effect, except by --set
};

/// Adds every broken rule; `complete`: also requires a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults);

}  // namespace qrl::config

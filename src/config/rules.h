// Owns the rules between keys: checks a recipe and names where each key was set.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/faults.h"
#include "config/recipe.h"

namespace qrl::config {

/// Tells a rule where to report its fault.
struct Origins {
  std::string whole;                          ///< the recipe's name, for keys that no source set
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> refused;              ///< keys with refused values; rules about them are skipped
};

/// Names the use of a recipe. Each use checks fewer rules than the one before.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< for a command without a loss: rules about the loss are skipped
  record,    ///< of a checkpoint, perhaps by an older program: also allows keys without effect, except from --set
};

/// Adds every broken rule. `complete`: a run's recipe, which needs a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults);

}  // namespace qrl::config

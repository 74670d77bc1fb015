// Owns what must hold between keys. Knows nothing of YAML: it judges a recipe and says where each key was set.
#pragma once

#include <map>
#include <set>
#include <string>

#include "config/faults.h"
#include "config/recipe.h"

namespace qrl::config {

/// What a rule needs to place its fault.
struct Origins {
  std::string whole;                          ///< the recipe's name, for keys that nobody set
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> refused;              ///< keys whose values were faults already: rules about them are mute
};

/// What a recipe is read for. Each use asks for less than the one before.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< by a command that computes no loss: what a loss cannot be is no fault
  record,  ///< what a checkpoint was made with, perhaps by an older program: nor is a key without effect, unless --set
};

/// Adds every broken rule. `complete`: a run's recipe, which needs a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults);

}  // namespace qrl::config

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

/// Adds every broken rule. `complete`: a run's recipe, which needs a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, Faults& faults);

}  // namespace qrl::config

#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "config/errors.h"
#include "config/recipe.h"

namespace qrl::config {

inline constexpr std::string_view kModePlace = "mode ";  // prefix in Origins::places of a key that the mode sets

struct Origins {
  std::string whole;                          ///< the recipe's name, for keys without a source
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> invalid;              ///< keys with invalid values, whose rules are skipped
};

/// Names a recipe's use. Each use checks fewer rules than the use above it.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< a command without a loss: skips the loss's rules
  record,    ///< a checkpoint, perhaps of an older version: also allows keys without effect, unless --set gives them
};

/// Adds an error for every broken rule. `complete` also requires a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Errors& errors);

}  // namespace qrl::config

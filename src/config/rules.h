#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "config/errors.h"
#include "config/recipe.h"

namespace qrl::config {

inline constexpr std::string_view kModePlace = "mode ";  // prefix of a key's place if the mode sets it

struct Origins {
  std::string whole;                          ///< name of the recipe, for keys without a place
  std::map<std::string, std::string> places;  ///< key → "file:line: key" where it was last set
  std::set<std::string> invalid;              ///< keys with invalid values, whose rules are skipped
};

/// Names a recipe's use. Each use checks fewer rules than the use above it.
enum class RecipeUse {
  training,  ///< every rule
  sampling,  ///< a command without a loss: skips the loss's rules
  record,    ///< a checkpoint, perhaps of an older version: also allows keys without effect, except those of --set
};

/// Adds an error for every broken rule. `complete` also requires a model and training data.
void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Errors& errors);

}  // namespace qrl::config

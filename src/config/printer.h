// Owns the printed form of a whole recipe. Knows nothing of files.
#pragma once

#include <map>
#include <string>

#include "config/recipe.h"

namespace qrl::config {

/// Canonical YAML of every key, in declaration order; reading it gives the same recipe. With `origins` (by key) each
/// value has its origin in a comment, "default" where there is none.
std::string resolved_yaml(const Recipe& recipe);
std::string resolved_yaml(const Recipe& recipe, const std::map<std::string, std::string>& origins);

}  // namespace qrl::config

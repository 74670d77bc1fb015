// Owns the printed form of a whole recipe. Knows nothing of files.
#pragma once

#include <string>

#include "config/recipe.h"

namespace qrl::config {

/// Canonical YAML of every key, in declaration order; reading it gives the same recipe.
std::string resolved_yaml(const Recipe& recipe);

}  // namespace qrl::config

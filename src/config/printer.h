// Owns the printed form of a whole recipe.
#pragma once

#include <map>
#include <string>

#include "config/recipe.h"

namespace qrl::config {

/// Returns canonical YAML of all keys in declaration order, which reads back as the same recipe. With `origins` (by
/// key), a comment after each value gives its origin, or "default".
std::string resolved_yaml(const Recipe& recipe);
std::string resolved_yaml(const Recipe& recipe, const std::map<std::string, std::string>& origins);

}  // namespace qrl::config

// Owns the cutting of words, and the rules for names in a recipe.
#pragma once

#include <string_view>
#include <vector>

namespace qrl::config {

std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// Accepts 1 to 64 letters, digits and . _ - @ +.
bool is_score_name(std::string_view name);
/// Accepts nonempty text without control characters.
bool is_source_name(std::string_view name);

}  // namespace qrl::config

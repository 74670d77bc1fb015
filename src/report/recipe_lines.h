#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

struct RecipeLine {
  std::string key, value, origin;  ///< "optim.lr", "5.0e-4", "recipe.yaml:14" or "default"
};

/// Returns an annotated recipe's values in order; skips other lines.
std::vector<RecipeLine> read_recipe_lines(std::string_view yaml);

/// Returns a key's value, or "".
std::string recipe_value(const std::vector<RecipeLine>& lines, std::string_view key);

/// Returns all values except seeds, run folder and threads: equal for runs that differ only in the seed.
std::string without_seed(const std::vector<RecipeLine>& lines);

}  // namespace qrl::report

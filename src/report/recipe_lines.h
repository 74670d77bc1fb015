// Owns the reading of config.yaml as a run writes it: every key with its value and origin, for show. Knows nothing of
// what keys mean; config's reader does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

struct RecipeLine {
  std::string key, value, origin;  ///< "optim.lr", "5.0e-4", "recipe.yaml:14" or "default"
};

/// The values of an annotated recipe in its order; lines of another form are left out.
std::vector<RecipeLine> read_recipe_lines(std::string_view yaml);

/// The value of a key, empty where it is not there.
std::string recipe_value(const std::vector<RecipeLine>& lines, std::string_view key);

/// What two runs of one recipe with other seeds have in common: all values without seeds, run folder and threads.
std::string without_seed(const std::vector<RecipeLine>& lines);

}  // namespace qrl::report

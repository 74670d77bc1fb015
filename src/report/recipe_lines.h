// Owns the display of config.yaml as a run writes it: each key with its value and origin. Values are not interpreted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

struct RecipeLine {
  std::string key, value, origin;  ///< "optim.lr", "5.0e-4", "recipe.yaml:14" or "default"
};

/// Returns the values of an annotated recipe in order; lines of another form are skipped.
std::vector<RecipeLine> read_recipe_lines(std::string_view yaml);

/// Returns the value of a key; empty if it is missing.
std::string recipe_value(const std::vector<RecipeLine>& lines, std::string_view key);

/// Returns all values except seeds, run folder and threads: equal texts mean runs that differ only in the seed.
std::string without_seed(const std::vector<RecipeLine>& lines);

}  // namespace qrl::report

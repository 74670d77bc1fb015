#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

struct RecipeLine {
  std::string key, value, origin;  ///< such as "optim.lr", "5.0e-4" and "recipe.yaml:14"
};

/// Returns an annotated recipe's keys in file order; skips other lines.
std::vector<RecipeLine> read_recipe_lines(std::string_view yaml);

/// A key whose values are not equal in all runs.
struct KeyDifference {
  std::string key;
  std::vector<std::string> values;  ///< one per run; "" where the run's recipe lacks the key
};

/// Returns the keys in which recipes differ, except the run folder, in the order of the first recipe that has the key.
/// An empty recipe differs in no key; its values are "".
std::vector<KeyDifference> differing_keys(const std::vector<std::string>& yamls);

std::string recipe_value(const std::vector<RecipeLine>& lines, std::string_view key);

/// Returns a text of all values except seeds, run folder, threads and resume mode. Runs that differ only in the seed
/// have equal texts.
std::string without_seed(const std::vector<RecipeLine>& lines);

}  // namespace qrl::report

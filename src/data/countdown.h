// Owns countdown tasks: their text, their generator and their worked demonstrations. Knows nothing of how answers are judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"

namespace qrl::data {

/// Reach `target` from `numbers`, each used exactly once, with + − * / and parentheses.
struct CountdownTask {
  std::vector<std::int64_t> numbers;
  std::int64_t target = 0;
  friend bool operator==(const CountdownTask&, const CountdownTask&) = default;
};

/// Which side of the fixed split a task belongs to: decided by a hash of its sorted numbers and target alone, so that
/// training and held-out tasks are disjoint whatever the seeds, sizes and ranges. One task in eight is held out.
enum class Split : std::uint8_t { train, held_out };
Split split_of(const CountdownTask& task);

/// Task `index` of the endless sequence (recipe, seed, split): solvable by construction (a random expression over the
/// numbers is evaluated exactly; its integer value in 1…max_target is the target). Depends on its arguments alone.
CountdownTask generate_countdown(const config::GeneratorRecipe& recipe, std::uint64_t seed, Split split,
                                 std::uint64_t index);

/// The prompt text of a task.
std::string countdown_prompt(const CountdownTask& task);
/// The ground truth as the verifier reads it: {"numbers":[…],"target":…}.
std::string countdown_ground_truth(const CountdownTask& task);

struct Demonstration {
  CountdownTask task;
  std::string response;      ///< trusted text: may hold <answer> … </answer>
};
/// Demonstration `index` of the sequence (recipe, seed): a train-split task and a response in the quickstart's form.
Demonstration demonstrate_countdown(const config::GeneratorRecipe& recipe, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::data

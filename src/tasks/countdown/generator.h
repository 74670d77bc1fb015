// Owns countdown tasks: their text, their generator and their worked demonstrations. Knows nothing of how answers are
// judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/split.h"

namespace qrl::tasks {

/// Reach `target` from `numbers`, each used exactly once, with + − * / and parentheses.
struct CountdownTask {
  std::vector<std::int64_t> numbers;
  std::int64_t target = 0;
  friend bool operator==(const CountdownTask&, const CountdownTask&) = default;
};

/// What numbers and targets a generator may use.
struct CountdownRanges {
  std::int64_t min_numbers = 0, max_numbers = 0;  ///< numbers of a task
  std::int64_t max_number = 0;                    ///< numbers are 1 … max_number
  std::int64_t max_target = 0;                    ///< targets are 1 … max_target
};

/// Of its sorted numbers and target.
Split split_of(const CountdownTask& task);

/// Task `index` (below 2^63) of the endless sequence (ranges, seed, split): solvable by construction. Random pairs of
/// the numbers are joined by random operators until one value is left; every value on the way is an integer (a division
/// is taken only by a positive value and where it leaves no rest) and the last, in 1…max_target, is the target. Depends
/// on its arguments alone. Throws an input error when the ranges hold no task that one could find.
CountdownTask generate_countdown(const CountdownRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index);

/// The prompt text of a task: "3 8 12 = 36\n".
std::string countdown_prompt(const CountdownTask& task);
/// The ground truth as the verifier reads it: {"numbers":[…],"target":…}.
std::string countdown_ground_truth(const CountdownTask& task);
struct Demonstration {
  CountdownTask task;
  std::string response;  ///< trusted text: holds <answer> and </answer>
};
/// Demonstration `index` of the sequence (ranges, seed): a task of the train split and a search for its answer, in the
/// quickstart's form (ours; chosen by measuring): attempts such as "6*2=12-4=8~40?" — operations from left to right, ~,
/// the target, and ! when it is reached or ? — and then <answer> with the last attempt's expression. Arithmetic and
/// labels are always true, but three in ten searches that have not succeeded stop after any attempt and answer wrongly:
/// a model that imitates them knows the form and solves a minority, and to search on is what RL finds. At most eight
/// attempts.
Demonstration demonstrate_countdown(const CountdownRanges& ranges, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

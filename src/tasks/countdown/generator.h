#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/generator.h"

namespace qrl::tasks {

/// Describes a task: reach `target` from `numbers`, each used exactly once, with + − * / and parentheses.
struct CountdownTask {
  std::vector<std::int64_t> numbers;
  std::int64_t target = 0;
  friend bool operator==(const CountdownTask&, const CountdownTask&) = default;
};

struct CountdownRanges {
  std::int64_t min_numbers = 0, max_numbers = 0;  ///< least and largest count of numbers
  std::int64_t max_number = 0;                    ///< largest number; the least is 1
  std::int64_t max_target = 0;                    ///< largest target; the least is 1
};

/// Returns a task's split, by a hash of its sorted numbers and its target.
Split split_of(const CountdownTask& task);

/// Returns task `index` (below 2^63) of the endless sequence (ranges, seed, split). Random operators join random pairs
/// of numbers until only the target, in 1…max_target, is left. All values are integers, and divisors are positive.
/// Throws an input error if the ranges allow too few tasks.
CountdownTask generate_countdown(const CountdownRanges& ranges, std::uint64_t seed, Split split, std::uint64_t index);

/// Returns "3 8 12 = 36\n".
std::string countdown_prompt(const CountdownTask& task);
/// Returns {"numbers":[…],"target":…}.
std::string countdown_ground_truth(const CountdownTask& task);
struct Demonstration {
  CountdownTask task;
  std::string response;  ///< text for Tokenizer::encode_trusted, with <answer> and </answer>
};
/// Returns demonstration `index` of the sequence (ranges, seed): a train-split task and one to eight attempts. An
/// attempt is "6*2=12-4=8~40?": operations from left to right, ~, the target, and ! (reached) or ?. The last attempt's
/// expression follows in <answer>. After a failed attempt, the demonstration stops with probability 0.3.
Demonstration demonstrate_countdown(const CountdownRanges& ranges, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

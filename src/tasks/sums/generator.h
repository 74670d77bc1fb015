// Owns sums and differences of two numbers in plain English: their text, their generator and their demonstrations.
// Knows nothing of how answers are judged.
#pragma once

#include <cstdint>
#include <string>

#include "tasks/split.h"

namespace qrl::tasks {

/// A question about two numbers; a difference is never negative.
struct SumTask {
  std::string text;  ///< "What is 47 plus 38?"
  std::int64_t first = 0, second = 0;
  char op = '+';  ///< + or -
  std::int64_t answer() const { return op == '+' ? first + second : first - second; }
};

/// Question `index` of the endless sequence (max_number, seed, split), about numbers of 1 … max_number. Two numbers are
/// asked about in one split alone, in whatever order and words. Throws an input error where a split has no numbers.
SumTask generate_sum(std::int64_t max_number, std::uint64_t seed, Split split, std::uint64_t index);

/// "47 + 38 = 85" for a task of the train split; in a third of the cases the result is off by up to 10 (ours).
std::string demonstrate_sum(const SumTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

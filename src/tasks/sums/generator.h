#pragma once

#include <cstdint>
#include <string>

#include "tasks/generator.h"

namespace qrl::tasks {

/// A question; a difference is never negative.
struct SumTask {
  std::string text;  ///< "What is 47 plus 38?"
  std::int64_t first = 0, second = 0;
  char op = '+';
  std::int64_t answer() const { return op == '+' ? first + second : first - second; }
};

/// Returns question `index` of the endless sequence (max_number, seed, split), with numbers in 1 … max_number. A pair
/// belongs to one split, in any order and wording. Throws an input error if a split has no pair.
SumTask generate_sum(std::int64_t max_number, std::uint64_t seed, Split split, std::uint64_t index);

/// Returns "47 + 38 = 85", for example, for a train-split task; with probability 1/3 the result is wrong by up to 10.
std::string demonstrate_sum(const SumTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

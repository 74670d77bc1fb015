// Owns arithmetic word problems: their text, their generator and their worked demonstrations. Knows nothing of how
// answers are judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/split.h"

namespace qrl::tasks {

/// A start and what happens to it; every value on the way is an integer of 1 … max_target.
struct ArithmeticTask {
  struct Step {
    char op = '+';  ///< + − * /
    std::int64_t operand = 0;
    std::int64_t value = 0;  ///< after it
  };
  std::string text;  ///< the problem
  std::int64_t start = 0;
  std::vector<Step> steps;
  std::int64_t answer() const { return steps.back().value; }
};

/// What problems a generator makes.
struct ArithmeticRanges {
  std::int64_t min_steps = 0, max_steps = 0;  ///< operations
  std::int64_t max_number = 0;                ///< operands of + and − are 1 … max_number
  std::int64_t max_target = 0;                ///< values are 1 … max_target
};

/// Problem `index` of the endless sequence (ranges, seed, split): ranges.min_steps to max_steps operations with
/// operands up to max_number (factors and divisors 2 to 5) and values up to max_target, about a person and things.
ArithmeticTask generate_arithmetic(const ArithmeticRanges& ranges, std::uint64_t seed, Split split,
                                   std::uint64_t index);

/// "Ann has 7 pens. She buys 5 more. How many pens does she have?\n"
std::string arithmetic_prompt(const ArithmeticTask& task);

/// "7+5=12 \boxed{12}" for a task of the train split: each step has another operation in a third of the cases
/// (ours; chosen by measuring), and computed on from there.
std::string demonstrate_arithmetic(const ArithmeticTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

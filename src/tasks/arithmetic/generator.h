#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/generator.h"

namespace qrl::tasks {

/// Describes a start value and operations. All values are in 1 … max_target.
struct ArithmeticTask {
  struct Step {
    char op = '+';  ///< + − * /
    std::int64_t operand = 0;
    std::int64_t value = 0;
  };
  std::string text;
  std::int64_t start = 0;
  std::vector<Step> steps;
  std::int64_t answer() const { return steps.back().value; }
};

struct ArithmeticRanges {
  std::int64_t min_steps = 0, max_steps = 0;
  std::int64_t max_number = 0;  ///< largest operand of + and −; the least is 1
  std::int64_t max_target = 0;  ///< largest value; the least is 1
};

/// Returns problem `index` of the endless sequence (ranges, seed, split). It has min_steps to max_steps operations.
/// Factors and divisors are 2 to 5.
ArithmeticTask generate_arithmetic(const ArithmeticRanges& ranges, std::uint64_t seed, Split split,
                                   std::uint64_t index);

/// Returns "Ann has 7 pens. She buys 5 more. How many pens does she have?\n".
std::string arithmetic_prompt(const ArithmeticTask& task);

/// Returns a text such as "7+5=12 \boxed{12}" for a train-split task. With probability 0.45, a step uses a random
/// operator, and the next step continues from its value.
std::string demonstrate_arithmetic(const ArithmeticTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::tasks

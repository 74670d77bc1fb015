// Owns arithmetic word problems: their text, their generator and their worked demonstrations. Knows nothing of how
// answers are judged.
#pragma once

#include "data/tasks.h"

namespace qrl::data {

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

/// Problem `index` of the endless sequence (recipe, seed, split): recipe.min_steps to max_steps operations with
/// operands up to max_number (factors and divisors 2 to 5) and values up to max_target, told about a person and things.
ArithmeticTask generate_arithmetic(const config::GeneratorRecipe& recipe, std::uint64_t seed, Split split,
                                   std::uint64_t index);

/// "Ann has 7 pens. She buys 5 more. How many pens does she have?\n"
std::string arithmetic_prompt(const ArithmeticTask& task);

/// "7+5=12 \boxed{12}" for a task of the train split: each step is told with another operation in one case of four
/// (ours; chosen by measuring), and computed on from there.
std::string demonstrate_arithmetic(const ArithmeticTask& task, std::uint64_t seed, std::uint64_t index);

}  // namespace qrl::data

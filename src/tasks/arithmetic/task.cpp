#include "tasks/task.h"

#include "tasks/arithmetic/generator.h"
#include "tasks/number_keys.h"

namespace qrl::tasks {

namespace {

using Integers = config::OwnKey::Integers;

const config::OwnKey kMinSteps{"min_steps", Integers{1, 8}, 1, "fewest operations of a problem"};
const config::OwnKey kMaxSteps{"max_steps", Integers{1, 8}, 2, "most operations of a problem"};

ArithmeticRanges ranges_of(const config::OwnValues& own) {
  return {own.integer_of(kMinSteps), own.integer_of(kMaxSteps), own.integer_of(max_number_key()),
          own.integer_of(max_target_key())};
}

GeneratedTask written(const ArithmeticTask& task) { return {arithmetic_prompt(task), std::to_string(task.answer())}; }

GeneratedTask generate(const config::OwnValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_arithmetic(ranges_of(own), seed, split, index));
}

WorkedTask demonstrate(const config::OwnValues& own, std::uint64_t seed, std::uint64_t index) {
  const ArithmeticTask task = generate_arithmetic(ranges_of(own), seed, Split::train, demonstrated_index(seed, index));
  return {written(task), demonstrate_arithmetic(task, seed, index)};
}

}  // namespace

extern const Task arithmetic_task;
const Task arithmetic_task{{{.word = "arithmetic",
                             .what = "word problems in small numbers",
                             .keys = {max_number_key(), max_target_key(), kMinSteps, kMaxSteps},
                             .ascending = {{"min_steps", "max_steps"}}},
                            generate,
                            demonstrate},
                           {}};

}  // namespace qrl::tasks

#include "tasks/task.h"

#include "tasks/arithmetic/generator.h"
#include "tasks/number_keys.h"

namespace qrl::tasks {

namespace {

const config::IntegerParam kMinSteps{"min_steps", {1, 8}, 1, "fewest operations in a problem", "max_steps"};
const config::IntegerParam kMaxSteps{"max_steps", {1, 8}, 2, "most operations in a problem"};

ArithmeticRanges ranges_of(const config::ParamValues& own) {
  return {own.of(kMinSteps), own.of(kMaxSteps), own.of(max_number_key()), own.of(max_target_key())};
}

GeneratedTask written(const ArithmeticTask& task) { return {arithmetic_prompt(task), std::to_string(task.answer())}; }

GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_arithmetic(ranges_of(own), seed, split, index));
}

WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const ArithmeticTask task = generate_arithmetic(ranges_of(own), seed, Split::train, demonstrated_index(seed, index));
  return {written(task), demonstrate_arithmetic(task, seed, index)};
}

}  // namespace

extern const Task arithmetic_task;
const Task arithmetic_task{{{.word = "arithmetic",
                             .what = "word problems with small numbers",
                             .params = {max_number_key(), max_target_key(), kMinSteps, kMaxSteps}},
                            generate,
                            demonstrate},
                           {}};

}  // namespace qrl::tasks

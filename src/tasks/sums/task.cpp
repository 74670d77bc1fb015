#include "tasks/task.h"

#include "tasks/number_keys.h"
#include "tasks/sums/generator.h"

namespace qrl::tasks {

namespace {

GeneratedTask written(const SumTask& task) { return {task.text, std::to_string(task.answer())}; }

GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_sum(own.of(max_number_key()), seed, split, index));
}

WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const SumTask task = generate_sum(own.of(max_number_key()), seed, Split::train, demonstrated_index(seed, index));
  return {written(task), demonstrate_sum(task, seed, index)};
}

}  // namespace

extern const Task sums_task;
const Task sums_task{
    {{.word = "sums", .what = "sums and differences of two numbers in plain English", .params = {max_number_key()}},
     generate,
     demonstrate},
    {}};

}  // namespace qrl::tasks

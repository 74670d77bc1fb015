#include "tasks/task.h"

#include "tasks/alternatives.h"
#include "tasks/countdown/generator.h"
#include "tasks/countdown/verifier.h"
#include "tasks/number_keys.h"

namespace qrl::tasks {

namespace {

const config::IntegerParam kMinNumbers{"min_numbers", {2, 6}, 3, "fewest numbers in a task", "max_numbers"};
const config::IntegerParam kMaxNumbers{"max_numbers", {2, 6}, 3, "most numbers in a task"};

CountdownRanges ranges_of(const config::ParamValues& own) {
  return {own.of(kMinNumbers), own.of(kMaxNumbers), own.of(max_number_key()), own.of(max_target_key())};
}

GeneratedTask written(const CountdownTask& task) { return {countdown_prompt(task), countdown_ground_truth(task)}; }

GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, Split split, std::uint64_t index) {
  return written(generate_countdown(ranges_of(own), seed, split, index));
}

WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const Demonstration demonstration = demonstrate_countdown(ranges_of(own), seed, index);
  return {written(demonstration.task), demonstration.response};
}

const config::WordParam<Numbers> kNumbers{"reward.numbers",
                                          {{"all", Numbers::all}, {"subset", Numbers::subset}},
                                          "which of the given numbers an answer must use, each at most once"};

std::unique_ptr<Verifier> make(const VerifierOptions& options) {
  return with_alternatives(std::make_unique<CountdownVerifier>(options.own.of(kNumbers)));
}

}  // namespace

extern const Task countdown_task;
const Task countdown_task{{{.word = "countdown",
                            .what = "reach a target from numbers, each used once",
                            .params = {kMinNumbers, kMaxNumbers, max_number_key(), max_target_key()}},
                           generate,
                           demonstrate},
                          {{.word = "countdown", .what = "an expression of given numbers", .params = {kNumbers}},
                           make,
                           "numbers and a target",
                           {{"numbers"}, {"target"}}}};

}  // namespace qrl::tasks

#include "tasks/task.h"

namespace qrl::tasks {

extern const Task math_task, countdown_task, sudoku_task, arithmetic_task, sums_task, command_task, environment_task;

namespace {

/// in the order in which messages list the words and keys
constexpr const Task* kTasks[] = {&math_task, &countdown_task, &sudoku_task,     &arithmetic_task,
                                  &sums_task, &command_task,   &environment_task};

}  // namespace

config::Choices<Generator> generators() {
  config::Choices<Generator> choices;
  for (const Task* task : kTasks) {
    if (!task->generator.word.empty()) choices.add(task->generator);
  }
  return choices;
}

config::Choices<VerifierChoice> verifiers() {
  config::Choices<VerifierChoice> choices({}, "countdown");
  for (const Task* task : kTasks) {
    if (!task->verifier.word.empty()) choices.add(task->verifier);
  }
  return choices;
}

}  // namespace qrl::tasks

#include "data/tasks.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/arithmetic.h"
#include "data/countdown.h"
#include "data/sudoku.h"

namespace qrl::data {

namespace {

GeneratedTask told(const CountdownTask& task) { return {countdown_prompt(task), countdown_ground_truth(task)}; }
GeneratedTask told(const SudokuTask& task) { return {sudoku_prompt(task), sudoku_ground_truth(task)}; }
GeneratedTask told(const ArithmeticTask& task) { return {arithmetic_prompt(task), std::to_string(task.answer())}; }

}  // namespace

GeneratedTask generate_task(const config::GeneratorRecipe& recipe, std::uint64_t seed, Split split,
                            std::uint64_t index) {
  if (recipe.task == "countdown") return told(generate_countdown(recipe, seed, split, index));
  if (recipe.task == "sudoku") return told(generate_sudoku(recipe, seed, split, index));
  if (recipe.task == "arithmetic") return told(generate_arithmetic(recipe, seed, split, index));
  base::fail_internal("generate_task", "a known task", base::quoted(recipe.task));
}

std::vector<GeneratedTask> held_out_tasks(const config::GeneratorRecipe& recipe, std::uint64_t seed,
                                          std::int64_t size) {
  constexpr int kMaxRepeats = 2000;  // in a row: the tasks left, if any, are then too rare to wait for
  std::vector<GeneratedTask> tasks;
  std::set<std::string> seen;
  int repeats = 0;
  for (std::uint64_t index = 0; std::ssize(tasks) < size; ++index) {
    GeneratedTask task = generate_task(recipe, seed, Split::held_out, index);
    if (seen.insert(task.prompt).second) {
      tasks.push_back(std::move(task));
      repeats = 0;
    } else {
      QRL_REQUIRE(++repeats <= kMaxRepeats, recipe.task + " generator",
                  std::to_string(size) + " held-out tasks that differ", std::to_string(tasks.size()),
                  "ask for fewer or widen the ranges");
    }
  }
  return tasks;
}

WorkedTask demonstrate_task(const config::GeneratorRecipe& recipe, std::uint64_t seed, std::uint64_t index) {
  if (recipe.task == "countdown") {
    const Demonstration demonstration = demonstrate_countdown(recipe, seed, index);
    return {told(demonstration.task), demonstration.response};
  }
  // Tasks of the train split other than the first ones, which training draws.
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2);
  const std::uint64_t task_index = random.below(std::uint64_t{1} << 62);
  if (recipe.task == "sudoku") {
    const SudokuTask task = generate_sudoku(recipe, seed, Split::train, task_index);
    return {told(task), demonstrate_sudoku(task, seed, index)};
  }
  const ArithmeticTask task = generate_arithmetic(recipe, seed, Split::train, task_index);
  return {told(task), demonstrate_arithmetic(task, seed, index)};
}

std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source) {
  std::string lines;
  for (const GeneratedTask& task : tasks) {
    const auto json = nlohmann::ordered_json::parse(task.ground_truth, nullptr, false);
    nlohmann::ordered_json row = {{"prompt", task.prompt}};
    if (json.is_object()) row["ground_truth"] = json;
    else row["ground_truth"] = task.ground_truth;
    row["data_source"] = data_source;
    lines += row.dump() + "\n";
  }
  return lines;
}

}  // namespace qrl::data

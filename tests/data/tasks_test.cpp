#include "data/tasks.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "data/arithmetic.h"
#include "data/jsonl.h"
#include "data/sudoku.h"
#include "refusal.h"

using namespace qrl::data;
using qrl::config::GeneratorRecipe;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

GeneratorRecipe recipe_of(const std::string& task) {
  GeneratorRecipe recipe;
  recipe.task = task;
  return recipe;
}

}  // namespace

TEST_CASE("held-out prompts of every task differ and none is ever trained on") {
  for (const char* name : {"countdown", "sudoku", "arithmetic"}) {
    INFO(name);
    const GeneratorRecipe recipe = recipe_of(name);
    const auto held_out = held_out_tasks(recipe, 3, 500);
    std::set<std::string> truths, prompts;
    for (const GeneratedTask& task : held_out) {
      truths.insert(task.ground_truth);
      prompts.insert(task.prompt);
    }
    CHECK(prompts.size() == 500);
    int found = 0;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      found += static_cast<int>(prompts.count(generate_task(recipe, 3, Split::train, i).prompt));
      found += static_cast<int>(prompts.count(demonstrate_task(recipe, 3, i).task.prompt));
    }
    CHECK(found == 0);
    const auto fewer = held_out_tasks(recipe, 3, 100);
    CHECK(std::equal(fewer.begin(), fewer.end(), held_out.begin()));
  }
}

TEST_CASE("a task of any kind depends on recipe, seed, split and index alone") {
  for (const char* name : {"countdown", "sudoku", "arithmetic"}) {
    INFO(name);
    const GeneratorRecipe recipe = recipe_of(name);
    int differ = 0;
    for (std::uint64_t i = 40; i-- > 0;) {
      CHECK(generate_task(recipe, 5, Split::train, i) == generate_task(recipe, 5, Split::train, i));
      CHECK(demonstrate_task(recipe, 5, i).response == demonstrate_task(recipe, 5, i).response);
      differ += !(generate_task(recipe, 5, Split::train, i) == generate_task(recipe, 6, Split::train, i));
    }
    CHECK(differ > 35);
  }
}

TEST_CASE("sudoku tasks have one solution and as many empty cells as asked") {
  GeneratorRecipe recipe = recipe_of("sudoku");
  for (const std::int64_t size : {4, 9}) {
    recipe.grid_size = size;
    recipe.min_empty = size == 4 ? 3 : 20;
    recipe.max_empty = size == 4 ? 9 : 45;
    std::set<std::int64_t> counts;
    std::set<std::string> solutions;
    for (std::uint64_t i = 0; i < (size == 4 ? 400u : 30u); ++i) {
      const SudokuTask task = generate_sudoku(recipe, 1, Split::train, i);
      const auto found = qrl::puzzle::solve_sudoku(task.puzzle, 2, 1'000'000);
      REQUIRE(found.grids.size() == 1);
      REQUIRE(found.complete);
      REQUIRE(found.grids.front() == task.solution);
      REQUIRE(qrl::puzzle::is_solved(task.solution));
      const auto empty = std::count(task.puzzle.cells.begin(), task.puzzle.cells.begin() + size * size, 0);
      REQUIRE(empty >= recipe.min_empty);
      REQUIRE(empty <= recipe.max_empty);
      counts.insert(empty);
      solutions.insert(qrl::puzzle::sudoku_digits(task.solution));
    }
    CHECK(counts.size() > 5);
    CHECK(solutions.size() > 25);
  }
  recipe.grid_size = 4;
  recipe.min_empty = recipe.max_empty = 15;
  CHECK(says(refusal_of([&] { generate_sudoku(recipe, 1, Split::train, 0); }), "lower max_empty"));
}

TEST_CASE("sudoku demonstrations keep the clues and are right in part") {
  const GeneratorRecipe recipe = recipe_of("sudoku");
  int right = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const WorkedTask demonstration = demonstrate_task(recipe, 2, i);
    std::string digits;
    for (const char c : demonstration.response) {
      if (c >= '0' && c <= '9') digits += c;
    }
    const auto truth = nlohmann::json::parse(demonstration.task.ground_truth);
    const auto grid = qrl::puzzle::read_sudoku(digits);
    REQUIRE(grid);
    REQUIRE(qrl::puzzle::keeps_clues(*qrl::puzzle::read_sudoku(truth["puzzle"].get<std::string>()), *grid));
    right += digits == truth["solution"] ? 1 : 0;
  }
  CHECK(right > 50);   // the form is known, and some answers
  CHECK(right < 300);  // there is something to learn
}

TEST_CASE("arithmetic problems tell what their steps compute") {
  GeneratorRecipe recipe = recipe_of("arithmetic");
  recipe.max_steps = 4;
  std::set<std::size_t> lengths;
  int right = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const ArithmeticTask task = generate_arithmetic(recipe, 4, Split::train, i);
    INFO(task.text);
    std::int64_t value = task.start;
    REQUIRE(task.text.find(" has " + std::to_string(task.start) + " ") != std::string::npos);
    for (const ArithmeticTask::Step& step : task.steps) {
      REQUIRE(task.text.find(std::to_string(step.operand)) != std::string::npos);
      if (step.op == '/') REQUIRE(value % step.operand == 0);
      value = step.op == '+'   ? value + step.operand
              : step.op == '-' ? value - step.operand
              : step.op == '*' ? value * step.operand
                               : value / step.operand;
      REQUIRE(value == step.value);
      REQUIRE(value >= 1);
      REQUIRE(value <= recipe.max_target);
    }
    lengths.insert(task.steps.size());
    const std::string response = demonstrate_arithmetic(task, 4, i);
    REQUIRE(response.ends_with("}"));
    right += response.ends_with("\\boxed{" + std::to_string(value) + "}") ? 1 : 0;
  }
  CHECK(lengths.size() == 4);
  CHECK(right > 300);
  CHECK(right < 900);
}

TEST_CASE("rows of every task are prompt files") {
  const qrl::test::TempDir dir;
  for (const char* name : {"countdown", "sudoku", "arithmetic"}) {
    INFO(name);
    const auto tasks = held_out_tasks(recipe_of(name), 1, 20);
    std::ofstream(dir / "x.jsonl") << tasks_jsonl(tasks, name);
    const auto rows = read_jsonl(dir / "x.jsonl");
    REQUIRE(rows.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(rows[i].prompt == tasks[i].prompt);
      CHECK(rows[i].ground_truth == tasks[i].ground_truth);
      CHECK(rows[i].data_source == name);
    }
  }
}

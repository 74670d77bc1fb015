#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "data/jsonl.h"
#include "support/refusal.h"
#include "tasks/arithmetic/generator.h"
#include "tasks/generator.h"
#include "tasks/sudoku/generator.h"
#include "tasks/support.h"

using namespace qrl::tasks;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

/// Every own key at its default.
const qrl::config::ParamValues kUsual;

const Generator& generator_of(const std::string& task) { return *generators().find(task); }

}  // namespace

TEST_CASE("task generators: held-out prompts differ and are never trained on") {
  for (const char* name : {"countdown", "sudoku", "arithmetic", "sums"}) {
    INFO(name);
    const Generator& task_kind = generator_of(name);
    const std::size_t most = std::string(name) == "sums" ? 200 : 500;  // numbers up to 20 allow few different sums
    const auto held_out = held_out_tasks(task_kind, kUsual, 3, static_cast<std::int64_t>(most));
    std::set<std::string> truths, prompts;
    for (const GeneratedTask& task : held_out) {
      truths.insert(task.ground_truth);
      prompts.insert(task.prompt);
    }
    CHECK(prompts.size() == most);
    int found = 0;
    for (std::uint64_t i = 0; i < 5000; ++i) {
      found += static_cast<int>(prompts.count(task_kind.generate(kUsual, 3, Split::train, i).prompt));
      found += static_cast<int>(prompts.count(task_kind.demonstrate(kUsual, 3, i).task.prompt));
    }
    CHECK(found == 0);
    const auto fewer = held_out_tasks(task_kind, kUsual, 3, 100);
    CHECK(std::equal(fewer.begin(), fewer.end(), held_out.begin()));
  }
}

TEST_CASE("task generators: a task depends only on recipe, seed, split and index") {
  for (const char* name : {"countdown", "sudoku", "arithmetic", "sums"}) {
    INFO(name);
    const Generator& task_kind = generator_of(name);
    int differ = 0;
    for (std::uint64_t i = 40; i-- > 0;) {
      CHECK(task_kind.generate(kUsual, 5, Split::train, i) == task_kind.generate(kUsual, 5, Split::train, i));
      CHECK(task_kind.demonstrate(kUsual, 5, i).response == task_kind.demonstrate(kUsual, 5, i).response);
      differ += !(task_kind.generate(kUsual, 5, Split::train, i) == task_kind.generate(kUsual, 6, Split::train, i));
    }
    CHECK(differ > 35);
  }
}

TEST_CASE("sudoku generator: one solution, and the requested number of empty cells") {
  SudokuRanges ranges;
  for (const int size : {4, 9}) {
    ranges.grid_size = size;
    ranges.min_empty = size == 4 ? 3 : 20;
    ranges.max_empty = size == 4 ? 9 : 45;
    std::set<std::int64_t> counts;
    std::set<std::string> solutions;
    for (std::uint64_t i = 0; i < (size == 4 ? 400u : 30u); ++i) {
      const SudokuTask task = generate_sudoku(ranges, 1, Split::train, i);
      const auto found = solve_sudoku(task.puzzle, 2, 1'000'000);
      REQUIRE(found.grids.size() == 1);
      REQUIRE(found.complete);
      REQUIRE(found.grids.front() == task.solution);
      REQUIRE(is_solved(task.solution));
      const auto empty = std::count(task.puzzle.cells.begin(), task.puzzle.cells.begin() + size * size, 0);
      REQUIRE(empty >= ranges.min_empty);
      REQUIRE(empty <= ranges.max_empty);
      counts.insert(empty);
      solutions.insert(sudoku_digits(task.solution));
    }
    CHECK(counts.size() > 5);
    CHECK(solutions.size() > 25);
  }
  ranges.grid_size = 4;
  ranges.min_empty = ranges.max_empty = 15;
  CHECK(says(refusal_of([&] { generate_sudoku(ranges, 1, Split::train, 0); }), "lower max_empty"));
}

TEST_CASE("sudoku demonstrations: keep the clues and are right in part") {
  const Generator& task_kind = generator_of("sudoku");
  int right = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const WorkedTask demonstration = task_kind.demonstrate(kUsual, 2, i);
    std::string digits;
    for (const char c : demonstration.response) {
      if (c >= '0' && c <= '9') digits += c;
    }
    const auto truth = nlohmann::json::parse(demonstration.task.ground_truth);
    const auto grid = read_sudoku(digits);
    REQUIRE(grid);
    REQUIRE(keeps_clues(*read_sudoku(truth["puzzle"].get<std::string>()), *grid));
    right += digits == truth["solution"] ? 1 : 0;
  }
  CHECK(right > 50);   // a model that imitates these learns the form, and some right answers
  CHECK(right < 300);  // leaves something to learn
}

TEST_CASE("sums generator: questions are about two numbers, each pair in only one split") {
  const Generator& sums = generator_of("sums");
  const auto up_to = [&](std::int64_t most) {
    qrl::config::ParamValues own;
    own.set(sums.params.front(), most);
    return own;
  };
  const qrl::config::ParamValues own = up_to(99);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs[2];
  std::set<std::string> words;
  for (const Split split : {Split::train, Split::held_out}) {
    for (std::uint64_t i = 0; i < 5000; ++i) {
      const GeneratedTask task = sums.generate(own, 4, split, i);
      INFO(task.prompt);
      std::string text = task.prompt;
      std::vector<std::int64_t> named;
      for (std::size_t at = 0; (at = text.find_first_of("0123456789")) != std::string::npos;) {
        const std::size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
        named.push_back(std::stoll(text.substr(at, end - at)));
        text.replace(at, end - at, "#");
      }
      REQUIRE(named.size() == 2);
      const auto [low, high] = std::minmax(named[0], named[1]);
      REQUIRE(low >= 1);
      REQUIRE(high <= 99);
      const bool is_sum = text == "What is # plus #?" || text == "What is # + #?";
      const std::int64_t answer = is_sum ? named[0] + named[1] : named[0] - named[1];
      REQUIRE(task.ground_truth == std::to_string(answer));
      REQUIRE(answer >= 0);
      words.insert(text);
      pairs[split == Split::train ? 0 : 1].emplace(low, high);
    }
  }
  CHECK(words == std::set<std::string>{"What is # plus #?", "What is # + #?", "What is # minus #?", "What is # - #?"});
  CHECK(pairs[0].size() > 1000);
  CHECK(pairs[1].size() > 700);
  for (const auto& pair : pairs[1]) CHECK_FALSE(pairs[0].contains(pair));
  CHECK(says(refusal_of([&] { sums.generate(up_to(1), 1, Split::held_out, 0); }), "raise max_number"));
  int right = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const WorkedTask demonstration = sums.demonstrate(own, 4, i);
    const std::size_t equals = demonstration.response.find(" = ");
    REQUIRE(equals != std::string::npos);
    right += demonstration.response.substr(equals + 3) == demonstration.task.ground_truth ? 1 : 0;
  }
  CHECK(right > 600);
  CHECK(right < 800);
}

TEST_CASE("arithmetic generator: problems state what their steps compute") {
  const ArithmeticRanges ranges{.min_steps = 1, .max_steps = 4, .max_number = 20, .max_target = 100};
  std::set<std::size_t> lengths;
  int right = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const ArithmeticTask task = generate_arithmetic(ranges, 4, Split::train, i);
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
      REQUIRE(value <= ranges.max_target);
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

TEST_CASE("task generators: rows are valid prompt files") {
  const qrl::test::TempDir dir;
  for (const char* name : {"countdown", "sudoku", "arithmetic", "sums"}) {
    INFO(name);
    const auto tasks = held_out_tasks(generator_of(name), kUsual, 1, 20);
    std::ofstream(dir / "x.jsonl") << tasks_jsonl(tasks, name);
    const auto rows = qrl::data::read_prompt_file(dir / "x.jsonl");
    REQUIRE(rows.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(rows[i].prompt == tasks[i].prompt);
      CHECK(rows[i].ground_truth == tasks[i].ground_truth);
      CHECK(rows[i].data_source == name);
    }
  }
}

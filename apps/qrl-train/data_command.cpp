// data: tasks of the built-in generators as JSONL.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "commands.h"
#include "data/tasks.h"
#include "state/file.h"
#include "state/folder.h"

namespace qrl::app {

namespace {

struct DataArguments {
  config::GeneratorRecipe generator;
  std::string out, split = "train";
  std::uint64_t seed = 0;
};

void require_order(const char* low_option, std::int64_t low, const char* high_option, std::int64_t high) {
  QRL_REQUIRE(low <= high, low_option, "at most " + std::string(high_option) + " = " + std::to_string(high),
              std::to_string(low));
}

void write_tasks(const DataArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "qrl-train data");
  const config::GeneratorRecipe& g = arguments.generator;
  require_order("--min-numbers", g.min_numbers, "--max-numbers", g.max_numbers);
  require_order("--min-empty", g.min_empty, "--max-empty", g.max_empty);
  require_order("--min-steps", g.min_steps, "--max-steps", g.max_steps);
  state::output_file(arguments.out);  // refused before the work, not after it
  require_new_file(arguments.out, "--out");
  std::vector<data::GeneratedTask> tasks;
  if (arguments.split == "held_out") {
    tasks = data::held_out_tasks(g, arguments.seed, g.size);
  } else {
    for (std::int64_t i = 0; i < g.size; ++i) {
      tasks.push_back(data::generate_task(g, arguments.seed, data::Split::train, static_cast<std::uint64_t>(i)));
    }
  }
  state::replace_file(arguments.out, data::tasks_jsonl(tasks, g.task));
  std::printf("wrote %zu %s to %s\n", tasks.size(), tasks.size() == 1 ? "task" : "tasks", arguments.out.c_str());
}

void add_count(CLI::App* command, const char* name, std::int64_t& value, std::int64_t low, std::int64_t high,
               const char* meaning) {
  command->add_option(name, value, meaning)->check(between(low, high))->capture_default_str()->type_name("INT");
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  CLI::App* data = app.add_subcommand("data", "write generated tasks as JSONL");
  data->require_subcommand(1);
  const auto add_task = [&action, data](const char* task, const char* meaning) {
    auto arguments = std::make_shared<DataArguments>();
    arguments->generator.task = task;
    arguments->generator.size = 1000;
    CLI::App* command = data->add_subcommand(task, meaning);
    command->add_option("--out", arguments->out, "file to write")->required()->check(not_empty())->type_name("FILE");
    add_count(command, "--size", arguments->generator.size, 1, 10'000'000, "tasks");
    command->add_option("--seed", arguments->seed, "seed of the generator")
        ->check(whole_number())
        ->capture_default_str()
        ->type_name("INT");
    command->add_option("--split", arguments->split, "side of the fixed split; held-out tasks are distinct")
        ->check(CLI::IsMember({"train", "held_out"}))
        ->capture_default_str()
        ->type_name("train|held_out");
    command->callback(
        [&action, arguments] { action = [arguments](dist::Collectives& world) { write_tasks(*arguments, world); }; });
    return std::pair(command, &arguments->generator);
  };

  const auto [countdown, c] = add_task("countdown", "reach a target from numbers, each used once");
  add_count(countdown, "--min-numbers", c->min_numbers, 2, 6, "fewest numbers of a task");
  add_count(countdown, "--max-numbers", c->max_numbers, 2, 6, "most numbers of a task");
  add_count(countdown, "--max-number", c->max_number, 1, 10'000, "numbers are 1 to this");
  add_count(countdown, "--max-target", c->max_target, 1, 1'000'000, "targets are 1 to this");

  const auto [sudoku, s] = add_task("sudoku", "grids with one solution");
  sudoku->add_option("--grid-size", s->grid_size, "rows of a grid")
      ->check(CLI::IsMember({4, 9}))
      ->capture_default_str()
      ->type_name("4|9");
  add_count(sudoku, "--min-empty", s->min_empty, 1, 64, "fewest empty cells");
  add_count(sudoku, "--max-empty", s->max_empty, 1, 64, "most empty cells");

  const auto [arithmetic, a] = add_task("arithmetic", "word problems in small numbers");
  add_count(arithmetic, "--min-steps", a->min_steps, 1, 8, "fewest operations of a problem");
  add_count(arithmetic, "--max-steps", a->max_steps, 1, 8, "most operations of a problem");
  add_count(arithmetic, "--max-number", a->max_number, 1, 10'000, "numbers are 1 to this");
  add_count(arithmetic, "--max-target", a->max_target, 1, 1'000'000, "results are 1 to this");
}

}  // namespace qrl::app

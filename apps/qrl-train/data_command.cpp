// data: tasks of the built-in generators as JSONL.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "command.h"
#include "data/countdown.h"
#include "state/file.h"
#include "state/folder.h"

namespace qrl::app {

namespace {

struct DataArguments {
  config::GeneratorRecipe generator;
  std::string out, split = "train";
  std::uint64_t seed = 0;
};

void write_countdown(const DataArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "data");
  QRL_REQUIRE(arguments.generator.min_numbers <= arguments.generator.max_numbers, "--min-numbers",
              "at most --max-numbers = " + std::to_string(arguments.generator.max_numbers),
              std::to_string(arguments.generator.min_numbers));
  state::output_file(arguments.out);  // refused before the work, not after it
  std::vector<data::CountdownTask> tasks;
  if (arguments.split == "held_out") {
    tasks = data::held_out_countdown(arguments.generator, arguments.seed, arguments.generator.size);
  } else {
    for (std::int64_t i = 0; i < arguments.generator.size; ++i) {
      tasks.push_back(data::generate_countdown(arguments.generator, arguments.seed, data::Split::train,
                                               static_cast<std::uint64_t>(i)));
    }
  }
  state::replace_file(arguments.out, data::countdown_jsonl(tasks));
  std::printf("wrote %zu tasks to %s\n", tasks.size(), arguments.out.c_str());
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<DataArguments>();
  arguments->generator.task = "countdown";
  arguments->generator.size = 1000;
  CLI::App* data = app.add_subcommand("data", "write generated tasks as JSONL");
  data->require_subcommand(1);
  CLI::App* countdown = data->add_subcommand("countdown", "reach a target from numbers, each used once");
  config::GeneratorRecipe& g = arguments->generator;
  countdown->add_option("--out", arguments->out, "file to write")->required()->check(not_empty())->type_name("FILE");
  countdown->add_option("--size", g.size, "tasks")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str()
      ->type_name("INT");
  countdown->add_option("--seed", arguments->seed, "seed of the generator")
      ->check(whole_number())
      ->capture_default_str()
      ->type_name("INT");
  countdown->add_option("--split", arguments->split, "side of the fixed split; held-out tasks are distinct")
      ->check(CLI::IsMember({"train", "held_out"}))
      ->capture_default_str()
      ->type_name("train|held_out");
  countdown->add_option("--min-numbers", g.min_numbers, "fewest numbers of a task")
      ->check(CLI::Range(2, 6))
      ->capture_default_str()
      ->type_name("INT");
  countdown->add_option("--max-numbers", g.max_numbers, "most numbers of a task")
      ->check(CLI::Range(2, 6))
      ->capture_default_str()
      ->type_name("INT");
  countdown->add_option("--max-number", g.max_number, "numbers are 1 to this")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str()
      ->type_name("INT");
  countdown->add_option("--max-target", g.max_target, "targets are 1 to this")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("INT");
  countdown->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { write_countdown(*arguments, world); }; });
}

}  // namespace qrl::app

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "state/file.h"
#include "state/folder.h"
#include "tasks/generator.h"
#include "train/recipe/catalog.h"

namespace qrl::app {

namespace {

struct GeneratorOption {
  const config::Param* param = nullptr;
  config::ParamValue value;
};

struct DataArguments {
  const tasks::Generator* generator = nullptr;
  std::vector<GeneratorOption> own;
  std::string out, split = "train";
  std::int64_t size = 1000;
  std::uint64_t seed = 0;
  bool demonstrations = false;
};

config::ParamValues values_of(const DataArguments& arguments) {
  config::ParamValues values;
  for (const GeneratorOption& option : arguments.own) values.set(*option.param, option.value);
  return values;
}

void require_ascending(const DataArguments& arguments) {
  const auto value_of = [&](std::string_view name) {
    const auto option =
        std::ranges::find_if(arguments.own, [name](const GeneratorOption& one) { return one.param->name == name; });
    return std::get<std::int64_t>(option->value);
  };
  for (const GeneratorOption& option : arguments.own) {
    const std::string& low = option.param->name;
    const std::string& high = option.param->at_most;
    QRL_REQUIRE(high.empty() || value_of(low) <= value_of(high), option_of(low),
                "at most " + option_of(high) + " = " + std::to_string(value_of(high)), std::to_string(value_of(low)));
  }
}

/// Writes the first `size` demonstrations that sft.demonstrations generates with this seed and these keys.
void write_demonstrations(const DataArguments& arguments) {
  QRL_REQUIRE(arguments.split == "train", "--demonstrations", "--split train", arguments.split,
              "use --split train: only training tasks have demonstrations");
  const tasks::Generator& generator = *arguments.generator;
  const config::ParamValues own = values_of(arguments);
  std::vector<tasks::WorkedTask> made;
  for (std::int64_t i = 0; i < arguments.size; ++i)
    made.push_back(generator.demonstrate(own, arguments.seed, static_cast<std::uint64_t>(i)));
  state::replace_file(arguments.out, tasks::demonstrations_jsonl(made, std::string(generator.word)));
  std::printf("wrote %zu %s to %s\n", made.size(), made.size() == 1 ? "demonstration" : "demonstrations",
              arguments.out.c_str());
}

void write_tasks(const DataArguments& arguments) {
  require_ascending(arguments);
  state::output_file(arguments.out);  // fails before work if the file cannot be written
  require_new_file(arguments.out, "--out");
  const tasks::Generator& generator = *arguments.generator;
  if (arguments.demonstrations) return write_demonstrations(arguments);
  const config::ParamValues own = values_of(arguments);
  std::vector<tasks::GeneratedTask> made;
  if (arguments.split == "held_out") {
    made = tasks::held_out_tasks(generator, own, arguments.seed, arguments.size);
  } else {
    for (std::int64_t i = 0; i < arguments.size; ++i)
      made.push_back(generator.generate(own, arguments.seed, tasks::Split::train, static_cast<std::uint64_t>(i)));
  }
  state::replace_file(arguments.out, tasks::tasks_jsonl(made, std::string(generator.word)));
  std::printf("wrote %zu %s to %s\n", made.size(), made.size() == 1 ? "task" : "tasks", arguments.out.c_str());
}

void add_own_option(CLI::App& command, GeneratorOption& option) {
  const config::Param& param = *option.param;
  const std::string name = option_of(param.name);
  if (const auto* integers = std::get_if<config::Param::Integers>(&param.type)) {
    add_integer(command, name, std::get<std::int64_t>(option.value), integers->low, integers->high, param.meaning)
        ->capture_default_str();
    return;
  }
  const auto& words = std::get<config::Param::Words>(param.type);
  add_word(command, name, std::get<std::string>(option.value), words, base::joined(words, "|"), param.meaning)
      ->capture_default_str();
}

void add_generator(CLI::App* data, const tasks::Generator& generator, Action& action) {
  auto arguments = std::make_shared<DataArguments>();
  arguments->generator = &generator;
  CLI::App* command = data->add_subcommand(std::string(generator.word), std::string(generator.what));
  add_text(*command, "--out", arguments->out, "FILE", "output file")->required();
  add_integer(*command, "--size", arguments->size, 1, 10'000'000, "number of tasks")->capture_default_str();
  command->add_option("--seed", arguments->seed, "seed of the generator")
      ->check(whole_number())
      ->capture_default_str()
      ->type_name("INT");
  add_word(*command, "--split", arguments->split, {"train", "held_out"}, "train|held_out",
           "split to generate; held-out tasks have no duplicates")
      ->capture_default_str();
  command->add_flag("--demonstrations", arguments->demonstrations,
                    "write tasks with a worked solution in `response`, for sft.train_files");
  for (const config::Param& param : generator.params) arguments->own.push_back({&param, param.default_value});
  for (GeneratorOption& option : arguments->own) add_own_option(*command, option);  // options reference the elements
  set_work(*command, action, arguments, write_tasks);
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  CLI::App* data = app.add_subcommand("data", "write generated tasks as JSONL");
  data->require_subcommand(1);
  for (const tasks::Generator* generator : train::keys().catalog().generators.typed())
    add_generator(data, *generator, action);
}

}  // namespace qrl::app

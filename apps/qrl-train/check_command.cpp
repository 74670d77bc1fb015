// check: reads one file as a run would and says what it is, or why it is refused.
#include <cstdio>

#include "command.h"
#include "data/csv.h"
#include "data/jsonl.h"
#include "data/tokenizer.h"
#include "model/config.h"
#include "model/weights.h"
#include "state/safetensors.h"

namespace qrl::app {

namespace {

std::string describe_recipe(const std::string& file) {
  const config::LoadedRecipe loaded = config::load_recipe(file, {}, false);
  return file + ": a recipe; its keys, types, ranges and rules hold (qrl-train " + file + " --dry-run checks the rest)";
}

struct Kind {
  const char* name;
  const char* what;
  std::function<std::string(const std::string& file)> describe;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"safetensors", "tensor file", [](const std::string& file) { return state::describe_safetensors(file); }},
      {"config", "Hugging Face config.json", [](const std::string& file) { return model::describe_config(file); }},
      {"index", "model.safetensors.index.json and its shards",
       [](const std::string& file) { return model::describe_index(file); }},
      {"tokenizer", "tokenizer.json",
       [](const std::string& file) { return file + ": " + data::Tokenizer::load(file).describe(); }},
      {"recipe", "recipe", describe_recipe},
      {"csv", "CSV file", [](const std::string& file) { return data::describe_csv(file); }},
      {"jsonl", "prompt file", [](const std::string& file) { return data::describe_jsonl(file); }},
  };
  return all;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* check =
      app.add_subcommand("check", "read one file as a run would: a summary, or why it is refused (exit 2)");
  check->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  for (const Kind& kind : kinds()) {
    CLI::App* command = check->add_subcommand(kind.name, std::string("check a ") + kind.what);
    command->add_option("FILE", *file, "file to check")->required();
    command->callback([&action, file, &kind] {
      action = [file, &kind](dist::Collectives& world) {
        require_one_process(world, "check");
        std::printf("%s\n", kind.describe(*file).c_str());
      };
    });
  }
}

}  // namespace qrl::app

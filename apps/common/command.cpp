#include "command.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/shared_library.h"
#include "cuda/engine/decode_engine.h"
#include "data/parquet.h"
#include "dist/messages.h"
#include "learner/learner.h"
#include "ops/isa.h"
#include "train/recipe/catalog.h"

namespace qrl::app {

namespace {

std::string memory_text;
int g_num_local_ranks = 0;  // 0: --ranks was not given

std::string describe_memory(const train::Recipe& recipe) {
  const auto part = [](const char* key, std::int64_t value) { return std::string(key) + " " + std::to_string(value); };
  const std::string pages = recipe.rollout.kv_pages > 0
                                ? ", " + part("rollout.kv_pages", recipe.rollout.kv_pages) + " of " +
                                      std::to_string(recipe.rollout.page_size) + " tokens"
                                : std::string();
  return part("rollout.max_num_seqs", recipe.rollout.max_num_seqs) + pages + ", " +
         part("rollout.max_num_batched_tokens", recipe.rollout.max_num_batched_tokens) + ", " +
         part("data.train_batch_size", recipe.data.train_batch_size) + " x " + part("rollout.n", recipe.rollout.n) +
         ", " + part("eval.n", recipe.eval.n) + ", " + part("sft.batch_size", recipe.sft.batch_size) + ", " +
         part("actor.max_tokens_per_micro_batch", recipe.actor.max_tokens_per_micro_batch);
}

}  // namespace

train::LoadedRecipe RecipeArguments::load(bool complete, train::RecipeUse use) const {
  train::LoadedRecipe loaded = train::load_recipe(train::keys(), file, overrides, complete, use);
  set_memory_settings(describe_memory(loaded.recipe));
  return loaded;
}

void set_memory_settings(const std::string& text) {
  memory_text = text;
  base::set_making_parts(true);
}

const std::string& memory_settings() { return memory_text; }

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required) {
  CLI::Option* file =
      command.add_option("RECIPE", arguments.file, "recipe file (YAML); qrl-train --help-all lists its keys");
  if (required) file->required();
  add_overrides(command, arguments.overrides);
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "override a recipe key; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // the next word is not a second value
}

void add_ranks(CLI::App& command) {
  command
      .add_option("--ranks", g_num_local_ranks,
                  "run N processes on this machine, without mpirun; results are bit-identical to mpirun -np N")
      ->type_name("N")
      ->check(between(1, dist::kMaxLocalRanks).description(""));
}

int num_local_ranks() { return std::max(g_num_local_ranks, 1); }

void require_own_launcher() {
  if (g_num_local_ranks == 0) dist::require_no_other_launcher();
}

void require_new_file(const std::string& file, const std::string& option) {
  std::error_code error;
  QRL_REQUIRE(!std::filesystem::exists(std::filesystem::symlink_status(file, error)), file, "the name of a new file",
              "an existing file", "delete it, or choose another " + option);
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  QRL_REQUIRE(folder.empty() || std::filesystem::is_directory(folder, error), file, "a file in an existing folder",
              "no folder " + folder.string(), "create the folder first");
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value, const std::string& type,
                      const std::string& meaning) {
  return command.add_option(name, value, meaning)->check(not_empty())->type_name(type);
}

CLI::Option* add_word(CLI::App& command, const std::string& name, std::string& value,
                      const std::vector<std::string>& words, const std::string& type, const std::string& meaning) {
  return command.add_option(name, value, meaning)->check(one_of(words))->type_name(type);
}

std::string option_of(std::string_view key) {
  std::string name = "--" + std::string(key.substr(key.rfind('.') + 1));
  std::ranges::replace(name, '_', '-');
  return name;
}

void add_checkpoint(CLI::App& command, std::string& checkpoint, const std::string& before) {
  add_text(command, "--checkpoint", checkpoint, "DIR",
           before +
               "checkpoint or Hugging Face folder; default: the recipe's model before training, with the "
               "adapters of lora.path");
}

std::istream& standard_input() {
  std::ios::sync_with_stdio(false);
  return std::cin;
}

std::string program_name() { return "qrl-train " QRL_VERSION; }

std::string version_text() {
  const std::string mpi = dist::mpi_version();
  const auto with_place = [](const std::string& version, const char* library) {
    const std::string path = base::loaded_library_path(library);
    return version + (path.empty() ? "" : " at " + path);
  };
  const bool reads_parquet = data::can_read_parquet();
  std::string libraries;
  for (const std::string& path : base::loaded_libraries()) {
    const std::string name = std::filesystem::path(path).filename();
    for (const char* stem :
         {"libarrow.", "libicuuc.", "libpcre2-8.", "libxxhash.", "libyaml-cpp.", "libgomp.", "libstdc++."})
      if (name.starts_with(stem)) libraries += "\n  " + name + " at " + path;
  }
  return program_name() + "\n  isa: " + ops::describe_isa() +
         "\n  torch: " + with_place(learner::torch_version(), "libtorch_cpu.so") +
         "\n  mpi: " + with_place(mpi, "libmpi.so.40") + "\n  cuda: " + cuda::version() +
         "\n  parquet: " + (reads_parquet ? "read by Arrow" : "none") + libraries;
}

}  // namespace qrl::app

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "config/printer.h"
#include "help.h"
#include "plan.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/run/run.h"
#include "train/signals.h"

namespace qrl::app {

namespace {

struct TrainArguments {
  RecipeArguments recipe;
  std::string resume;
  bool print_config = false;
  bool dry_run = false;
  bool allow_absent = false;
  bool allow_change = false;
};

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(base::shell_word(word));
  return base::joined(words, " ");
}

train::LoadedRecipe load(const TrainArguments& arguments, bool complete) {
  RecipeArguments recipe = arguments.recipe;
  if (!arguments.resume.empty()) recipe.overrides.push_back("trainer.resume_mode=" + arguments.resume);
  return recipe.load(complete, train::RecipeUse::training);
}

void train(const TrainArguments& arguments, dist::Collectives& world, train::RunPart part) {
  const train::LoadedRecipe loaded = load(arguments, !arguments.print_config);
  if (arguments.print_config) {
    if (world.is_first()) std::printf("%s", loaded.annotated_yaml.c_str());
  } else if (arguments.dry_run) {
    if (world.is_first())
      describe_run(loaded, {world.size(), world.local_size(), arguments.allow_absent, arguments.allow_change});
  } else {
    require_own_launcher();
    train::announce_signals(world.is_first());
    QRL_REQUIRE(part != train::RunPart::cold_start_only || train::has_cold_start(loaded.recipe.sft),
                arguments.recipe.file, "sft.steps or sft.epochs of at least 1 for qrl-train sft", "0",
                "set one of them, with sft.demonstrations or sft.train_files");
    train::run(loaded, world, {part, arguments.allow_change, command_line(), program_name()});
    // A closed standard output is not an error, because results are in the run folder.
    const bool gone = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (gone && std::freopen("/dev/null", "w", stdout) == nullptr) std::clearerr(stdout);
  }
}

/// Installs signal handlers before ranks connect.
Action prepared(const std::shared_ptr<TrainArguments>& arguments, train::RunPart part) {
  if (!arguments->print_config && !arguments->dry_run) train::install_signal_handlers();
  return [arguments, part](dist::Collectives& world) { train(*arguments, world, part); };
}

void add_options(CLI::App& command, TrainArguments& arguments, bool recipe_required) {
  add_recipe_arguments(command, arguments.recipe, recipe_required);
  add_text(command, "--resume", arguments.resume, "auto|never|PATH",
           "auto (default): from the newest intact checkpoint; never: fail if the run has a checkpoint; PATH: from "
           "that checkpoint; without a value, auto")
      ->check(value_of("trainer.resume_mode"));
  add_ranks(command);
  CLI::Option* print =
      command.add_flag("--print-config", arguments.print_config, "print all keys with each value's origin, and exit");
  CLI::Option* dry_run =
      command
          .add_flag("--dry-run", arguments.dry_run,
                    "print what a run would do and need, and exit; checks the recipe, the data, the model's shapes and "
                    "the checkpoint to resume; exit code 2 if a file or GPU is missing")
          ->excludes(print);
  command
      .add_flag("--allow-absent", arguments.allow_absent,
                "with --dry-run: plan a run on another machine; lists what is missing on this one")
      ->needs(dry_run)
      ->group(kRareOptions);
  command
      .add_flag("--allow-change", arguments.allow_change,
                "resume although optim.lr, rollout.n, data.train_files or other keys marked in "
                "docs/reference/recipe-keys.md have changed; the log and metrics.jsonl record it")
      ->group(kRareOptions);
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TrainArguments>();
  add_options(app, *arguments, false);
  app.footer([] {
    return "Keys of a recipe (also docs/reference/recipe-keys.md):\n" + config::keys_help(train::keys()) +
           "\nExit codes: 0 done, 2 bad recipe, arguments or input, 3 stopped by a training guard,\n"
           "75 stopped by a signal after a checkpoint, 1 anything else.";
  });
  app.callback([&app, &action, arguments] {
    if (!app.get_subcommands().empty()) {
      for (const CLI::Option* option : app.get_options()) {
        QRL_REQUIRE(option->count() == 0, "qrl-train", "a command's options after its name",
                    option->get_name() + " before " + app.get_subcommands().front()->get_name(),
                    "move it after the command");
      }
      return;
    }
    QRL_REQUIRE(!arguments->recipe.file.empty(), "qrl-train", "a recipe or a command", "neither",
                "see qrl-train --help");
    if (!std::filesystem::exists(arguments->recipe.file)) refuse_command(app, arguments->recipe.file);
    action = prepared(arguments, train::RunPart::everything);
  });

  auto sft_arguments = std::make_shared<TrainArguments>();
  CLI::App* sft = app.add_subcommand("sft", "run a recipe's supervised cold start, and exit");
  add_options(*sft, *sft_arguments, true);
  sft->callback([&action, sft_arguments] { action = prepared(sft_arguments, train::RunPart::cold_start_only); });
}

}  // namespace qrl::app

// Owns how a subcommand joins the command line: each command file adds its options and leaves what to run. Knows
// nothing of what the commands do.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/reader.h"
#include "dist/collectives.h"

namespace qrl::app {

/// What the command line chose; set by the chosen command's callback, run by main inside the job.
using Action = std::function<void(dist::Collectives& world)>;

/// Arguments that every command with a recipe takes.
struct RecipeArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< --set KEY=VALUE

  config::LoadedRecipe load(bool complete = true) const;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments, bool required = true);
/// --set alone.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

void add_train(CLI::App& app, Action& action);  ///< the main job, and `sft`
void add_eval(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_dump(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_judge(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_bench_tokenizer(CLI::App& bench, Action& action);  ///< one of its subcommands
void add_bench_products(CLI::App& bench, Action& action);   ///< another
void add_bench_attention(CLI::App& bench, Action& action);  ///< and another
void add_bench_ticks(CLI::App& bench, Action& action);      ///< and the last

/// The input error of a word where one of `parent`'s commands should stand: names it and those there are.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word);
/// The same for the words that follow the program's name, as far as commands go: to be asked before they are parsed,
/// since a parser takes an unknown command for a recipe or for one argument too many.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// What a parser's error says, with a hint: hydra's KEY=VALUE, a misspelled option, or where the help is.
std::string explain_arguments(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

/// A number of a range, which help shows in short: "INT:1..1024".
CLI::Validator between(std::int64_t low, std::int64_t high);

/// std::cin, which from then on is read in blocks, not byte by byte; for commands that write by stdio alone.
std::istream& standard_input();

/// Checks of an option's value, for CLI::Option::check.
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< decimal digits of 64 bits, without sign or leading zero

/// What the recipe read last asks of memory, for whoever has to say that it ran out; "" before any was read.
const std::string& asked_of_memory();
/// Says it in a command's own words: from here on what does not fit was asked for.
void set_asked_of_memory(const std::string& text);

/// An input error when there is a file (or a folder, or a link) of that name: nothing is overwritten.
void require_new_file(const std::string& file, const std::string& option);

/// Commands that work in one process only say so under mpirun.
void require_one_process(const dist::Collectives& world, const std::string& command);

/// What a benchmark found: one JSON object on a line, or a name and its value a line.
void print_result(const nlohmann::ordered_json& result, bool as_json);

/// What --version prints: version, instruction sets, MPI, CUDA.
std::string version_text();

}  // namespace qrl::app

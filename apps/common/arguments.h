// Owns the checks of command-line words.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace qrl::app {

/// Throws an unknown command's input error, with `parent`'s commands.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word);
/// Throws that error for the first unknown command, before the parser takes it for a recipe.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Inserts "auto" after a --resume without a value.
std::vector<std::string> with_bare_options(std::vector<std::string> words);

/// Returns the words, with the file of a recipe of the program in place of each recipes:NAME. Throws the input error of
/// shipped_recipe.
std::vector<std::string> with_shipped_recipes(std::vector<std::string> words);

/// Converts a parser error to base::Error, with a hint at a misspelled option, --set or --help.
base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// Check an option's value for CLI::Option::check ("expected …, got …").
CLI::Validator between(std::int64_t low, std::int64_t high);  ///< an integer; --help shows "INT:1..1024"
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive();
CLI::Validator value_of(const std::string& key);  ///< a value of the recipe key of that name
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< decimal digits that fit 64 bits, without sign or leading zero

}  // namespace qrl::app

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace qrl::app {

/// Returns the command's words: "qrl-train check reward".
std::string full_name(const CLI::App& command);

/// Throws the input error for an unknown command; it lists `parent`'s commands.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word);
/// Calls refuse_command for the first unknown command, before the parser takes it for a recipe.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Inserts "auto" after a --resume without a value.
std::vector<std::string> with_bare_options(std::vector<std::string> words);

/// Replaces each recipes:NAME by that shipped recipe's file. Throws like shipped_recipe.
std::vector<std::string> with_shipped_recipes(std::vector<std::string> words);

/// Converts a parser error to base::Error, with a hint at a misspelled option, --set or --help.
base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// Check an option's value for CLI::Option::check ("expected …, got …").
CLI::Validator between(std::int64_t low, std::int64_t high);  ///< an integer; --help shows "INT:1..1024"
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive();
CLI::Validator value_of(const std::string& key);  ///< checks for a value of that recipe key
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< checks for digits that fit 64 bits, without sign or leading zero

}  // namespace qrl::app

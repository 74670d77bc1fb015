// Owns the checks of command-line words: option values, and the errors for unknown words.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace qrl::app {

/// Throws the input error for an unknown command; it names the word and `parent`'s commands.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word);
/// Throws the error of refuse_command for the first unknown command. Called before parsing, because the parser takes
/// such a word for a recipe or an extra argument.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Returns the words, with "auto" inserted after a --resume that has no value.
std::vector<std::string> with_bare_options(std::vector<std::string> words);

/// Converts a parser error to base::Error: where, expected, got, and a hint at a misspelled option, --set or --help.
base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// These check an option's value for CLI::Option::check; their texts say "expected …, got …".
CLI::Validator between(std::int64_t low, std::int64_t high);  ///< an integer; --help shows "INT:1..1024"
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive();
CLI::Validator value_of(const std::string& key);  ///< a value of the recipe key of that name
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< decimal digits that fit 64 bits, without sign or leading zero

}  // namespace qrl::app

// Owns what a command line's words may be: checks of options' values, and the errors about words that are none. Knows
// nothing of what the commands do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace qrl::app {

/// The input error of a word in the place of one of `parent`'s commands; names the word and the commands.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word);
/// Throws it for the first word behind the program's name that is no command. Called before parsing, since the parser
/// takes an unknown command for a recipe or for an extra argument.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Returns the words with "auto" behind a --resume that no value follows.
std::vector<std::string> with_bare_options(std::vector<std::string> words);

/// The parser's error as one of ours: where, expected, got, and a hint at a misspelled option, at --set or at --help.
base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// Checks of an option's value, for CLI::Option::check; their texts say "expected …, got …".
CLI::Validator between(std::int64_t low, std::int64_t high);  ///< an integer; --help shows "INT:1..1024"
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive();                        ///< a number above 0
CLI::Validator value_of(const std::string& key);  ///< a value of the recipe's key of that name
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< decimal digits of 64 bits, without sign or leading zero

}  // namespace qrl::app

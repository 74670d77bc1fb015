#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace qrl::app {

/// Returns the command's words: "qrl-train check reward".
std::string full_name(const CLI::App& command);

/// Throws an input error that lists `parent`'s commands, because `word` is none of them. `next` is the word after it.
[[noreturn]] void refuse_command(const CLI::App& parent, const std::string& word, const std::string& next = "");
/// Calls refuse_command for an unknown command, before the parser takes it for a recipe.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Inserts "auto" after each --resume without a value.
std::vector<std::string> with_bare_options(std::vector<std::string> words);

/// Replaces each recipes:NAME by that shipped recipe's file. Throws like shipped_recipe.
std::vector<std::string> with_shipped_recipes(std::vector<std::string> words);

base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

// Return checks for CLI::Option::check, with messages "expected …, got …".
CLI::Validator between(std::int64_t low, std::int64_t high);  ///< accepts integers; --help shows "INT:1..1024"
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive();
CLI::Validator value_of(const std::string& key);  ///< accepts what the recipe key accepts
CLI::Validator not_empty();
CLI::Validator whole_number();  ///< accepts unsigned 64-bit integers without leading zero

}  // namespace qrl::app

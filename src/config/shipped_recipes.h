// Owns the names of recipes that come with the program: "recipes:NAME" in place of a recipe's file.
#pragma once

#include <string>
#include <string_view>

namespace qrl::config {

/// Returns whether a word has the form recipes:NAME.
bool is_shipped_recipe(std::string_view word);

/// Returns the file that recipes:NAME means, where NAME is a path below the program's recipes, with or without ".yaml".
/// Throws an input error that names the most similar recipe if there is none.
std::string shipped_recipe(std::string_view word);

/// Returns the path that recipes:PATH means below the program's recipes, whether or not a file is there; other texts
/// unchanged.
std::string shipped_path(const std::string& path);

}  // namespace qrl::config

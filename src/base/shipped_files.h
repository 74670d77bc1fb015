// Owns the paths of files that come with the program, in the source tree or an install. Resolves recipe names
// ("recipes:NAME").
#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Returns the folder `in_source` of the source tree that the program is in. For an installed program, returns
/// PREFIX/share/qrl-train/`installed`. Returns "" if neither folder holds `file`.
std::string shipped_folder(const std::string& in_source, const std::string& installed, const std::string& file);

/// Returns whether the program was installed from a wheel: it is PACKAGE/bin/qrl-train, and PACKAGE/launch.py exists.
bool is_in_wheel();

bool is_shipped_recipe(std::string_view word);

/// Returns the file of recipes:NAME; NAME is a path below the program's recipes, with or without ".yaml". Throws an
/// input error that names the most similar recipe.
std::string shipped_recipe(std::string_view word);

/// Returns a line for each recipe that comes with the program: its name, and the first sentence of its comment. Throws
/// an input error if there are none.
std::string list_of_recipes();

/// Returns the path of recipes:PATH, even if no file exists; returns other texts unchanged.
std::string shipped_path(const std::string& path);

}  // namespace qrl::base

#pragma once

#include <span>
#include <string>
#include <vector>

namespace qrl::base {

/// Holds a library that stays open until the process ends. If `handle` is null, `why` has the loader's messages.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;
  std::string why;
};
/// With `global`, libraries opened later can use this library's symbols.
enum class LibraryScope { own, global };
/// Opens the first of `names` (paths, or loader names) that can be opened.
SharedLibrary open_shared_library(std::span<const std::string> names, LibraryScope scope = LibraryScope::own);

/// Returns the path of a library that comes with the program, or "". Searches the program's folder, its parent (for
/// tests), and ../lib/qrl-train.
std::string own_library(const std::string& name);

std::string loaded_library_path(const std::string& name);

std::vector<std::string> loaded_libraries();

/// Describes a library or driver: the version required, and the version found.
struct LibraryReport {
  std::string name;
  std::string wanted;
  std::string found;  ///< version found; empty: none
  std::string path;   ///< path of the file found; empty: none, or unknown
  std::string why;
  std::string what_to_do;
  bool fits = false;

  std::string found_text() const;
  std::string line() const;
};

/// Throws an input error unless the library `fits`. The error states the version wanted and the version found. `where`:
/// the recipe key that needs the library.
void require(const LibraryReport& library, const std::string& where);

}  // namespace qrl::base

// Owns shared libraries that are opened at run time: their files, and the versions required and found.
#pragma once

#include <span>
#include <string>

namespace qrl::base {

/// Holds a library that stays open until the process ends. Without a handle, `why` has the loader's message for each
/// name.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;
  std::string why;
};
/// Opens the first of `names` (paths, or names for the loader) that can be opened.
SharedLibrary open_shared_library(std::span<const std::string> names);

/// Returns the file of the loaded library of this name; empty if the process has not loaded it.
std::string loaded_library_path(const std::string& name);

/// Describes the required version of a library (or driver) and the version found.
struct LibraryReport {
  std::string name;    ///< "cuBLASLt"
  std::string wanted;  ///< "13"
  std::string found;   ///< version; empty: none
  std::string path;    ///< of the file found; empty: none, or unknown
  std::string why;     ///< the loader's message
  std::string what_to_do;
  bool fits = false;

  /// Returns e.g. "13.1.0 at /path" or "none (libcublasLt.so.13: cannot open …)".
  std::string found_text() const;
  std::string line() const;
};

/// Throws an input error that names both versions unless the library fits. `where` is the recipe key that needs it.
void require(const LibraryReport& library, const std::string& where);

}  // namespace qrl::base

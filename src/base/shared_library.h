// Owns shared libraries that are found while the program runs: which file it was, which version was wanted and found.
// Knows nothing of what is in them.
#pragma once

#include <span>
#include <string>

namespace qrl::base {

/// A library that was opened, for the life of the process; without a handle `why` has the loader's words, a name each.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;
  std::string why;
};
/// The first of `names` (paths, or names for the loader's own search) that opens.
SharedLibrary open_shared_library(std::span<const std::string> names);

/// The file of a library of this name that the process has loaded; empty: it has none.
std::string loaded_library_path(const std::string& name);

/// Which version of a library (or driver) is wanted, and what is there.
struct LibraryReport {
  std::string name;    ///< "cuBLASLt"
  std::string wanted;  ///< "13"
  std::string found;   ///< version; empty: none
  std::string path;    ///< where; empty: nowhere, or not told
  std::string why;     ///< what the loader said
  std::string what_to_do;
  bool fits = false;

  /// "13.1.0 at /path", "none (libcublasLt.so.13: cannot open …)".
  std::string found_text() const;
  /// "cuBLASLt: 13 wanted, found 13.1.0 at /path".
  std::string line() const;
};

/// An input error that names both versions unless the library fits. `where`: the key that asks for it.
void require(const LibraryReport& library, const std::string& where);

}  // namespace qrl::base

#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace qrl::base {

namespace {

std::string path_of(void* handle) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

SharedLibrary open_shared_library(std::span<const std::string> names, LibraryScope scope) {
  SharedLibrary library;
  const int mode = RTLD_NOW | (scope == LibraryScope::global ? RTLD_GLOBAL : RTLD_LOCAL);
  for (const std::string& name : names) {
    library.handle = dlopen(name.c_str(), mode);
    if (library.handle != nullptr) return {library.handle, path_of(library.handle), {}};
    const char* said = dlerror();
    library.why +=
        (library.why.empty() ? "" : "; ") + (said != nullptr ? std::string(said) : name + ": cannot be opened");
  }
  return library;
}

std::string own_library(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder.parent_path(), folder.parent_path() / "lib" / "qrl-train"}) {
    if (fs::exists(place / name, error)) return place / name;
  }
  return {};
}

std::string loaded_library_path(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) {
    (void)dlerror();
    return {};
  }
  std::string path = path_of(handle);
  (void)dlclose(handle);  // releases the reference that RTLD_NOLOAD added
  return path;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> files;
  (void)dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        if (*info->dlpi_name != '\0') static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

std::string LibraryReport::found_text() const {
  if (found.empty()) return why.empty() ? "none" : "none (" + why + ")";
  return found + (path.empty() ? "" : " at " + path) + (why.empty() ? "" : " (" + why + ")");
}

std::string LibraryReport::line() const { return name + ": " + wanted + " wanted, found " + found_text(); }

void require(const LibraryReport& library, const std::string& where) {
  QRL_REQUIRE(library.fits, where, library.name + " " + library.wanted, library.found_text(), library.what_to_do);
}

}  // namespace qrl::base

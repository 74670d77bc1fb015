#include "output_folder.h"

#include <filesystem>

#include "base/error.h"
#include "state/sealed.h"

namespace qrl::app {

namespace fs = std::filesystem;

void require_output_folder(const std::string& dir) {
  std::error_code error;
  state::require_place_for_output(dir);
  const fs::file_status out = fs::status(dir, error);
  QRL_REQUIRE(!fs::exists(out) || fs::is_directory(out), dir, "a new or empty folder", "a file",
              "choose another --out");
  QRL_REQUIRE(!fs::exists(out) || fs::is_empty(dir, error), dir, "a new or empty folder", "a folder with files in it",
              "choose another --out");
}

void write_folder(const std::string& dir, const std::function<void()>& write) {
  std::error_code error;
  fs::create_directories(dir, error);
  QRL_REQUIRE(!error, dir, "a folder that can be created", error.message(), "choose another --out");
  try {
    write();
  } catch (...) {
    for (const auto& entry : fs::directory_iterator(dir, error)) fs::remove_all(entry, error);
    throw;
  }
}

}  // namespace qrl::app

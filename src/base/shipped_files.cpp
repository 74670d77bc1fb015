#include "base/shipped_files.h"

#include <filesystem>
#include <system_error>

namespace qrl::base {

std::string shipped_folder(const std::string& in_source, const std::string& installed, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  // Relative to the program, a test program, and an installed program.
  for (const std::string& place : {"../" + in_source, "../../" + in_source, "../share/qrl-train/" + installed}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    if (fs::exists(folder / file, error)) return folder.string();
  }
  return {};
}

bool is_in_wheel() {
  namespace fs = std::filesystem;
  std::error_code error;
  return fs::exists(fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "launch.py", error);
}

}  // namespace qrl::base

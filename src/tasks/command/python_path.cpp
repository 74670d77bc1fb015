#include "tasks/command/python_path.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

extern char** environ;

namespace qrl::tasks {

namespace {

constexpr std::string_view kName = "PYTHONPATH=";

/// Empty where there is none.
std::string python_folder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  // Of the program, of a test program, and of an installed one.
  for (const char* place : {"../apps/python", "../../apps/python", "../share/qrl-train/python"}) {
    const std::filesystem::path folder = (program.parent_path() / place).lexically_normal();
    if (std::filesystem::exists(folder / "qrl_reward.py", error)) return folder.string();
  }
  return "";
}

}  // namespace

std::vector<std::string> environment_with_python_path() {
  std::vector<std::string> all;
  std::string path = python_folder();
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (!text.starts_with(kName)) all.emplace_back(text);
    else if (text.size() > kName.size()) path += (path.empty() ? "" : ":") + std::string(text.substr(kName.size()));
  }
  if (!path.empty()) all.push_back(std::string(kName) + path);
  return all;
}

}  // namespace qrl::tasks

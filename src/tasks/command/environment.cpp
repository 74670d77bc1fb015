#include "tasks/command/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/shipped_files.h"

extern char** environ;

namespace qrl::tasks {

namespace {

constexpr std::string_view kPythonPath = "PYTHONPATH";

/// Lists variables that programs need, by name or by prefix.
constexpr auto kNames = std::to_array<std::string_view>({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV",
                                                         "CONDA_PREFIX", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"});
constexpr auto kBeginnings = std::to_array<std::string_view>({"LC_", "PYTHON", "SSL_CERT_", "OMP_", "QRL_"});

bool is_handed_on(std::string_view name) {
  const auto begins = [&](std::string_view start) { return name.starts_with(start); };
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), begins) || name.ends_with("_proxy") ||
         name.ends_with("_PROXY");
}

}  // namespace

ProgramEnvironment program_environment(const std::vector<std::string>& names) {
  ProgramEnvironment all;
  for (const std::string& name : names)
    QRL_REQUIRE(std::getenv(name.c_str()) != nullptr, "reward.env", "names of variables that are set", name,
                "export " + name + ", or take it out of the list");
  std::string path = base::shipped_folder("apps/python", "python", "qrl_reward.py");
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one, name = text.substr(0, text.find('='));
    const bool is_named = std::find(names.begin(), names.end(), name) != names.end();
    if (name == kPythonPath) {
      const std::string_view value = text.substr(std::min(name.size() + 1, text.size()));
      if (!value.empty()) path += (path.empty() ? "" : ":") + std::string(value);
    } else if (is_named || is_handed_on(name)) {
      all.variables.emplace_back(text);
    } else {
      all.withheld.emplace_back(name);
    }
  }
  if (!path.empty()) all.variables.push_back(std::string(kPythonPath) + "=" + path);
  std::sort(all.withheld.begin(), all.withheld.end());
  return all;
}

}  // namespace qrl::tasks

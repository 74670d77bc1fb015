#include "base/python.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/shipped_files.h"

namespace qrl::base {

std::string python_program() {
  const char* started_by = std::getenv("QRL_PYTHON");
  return started_by != nullptr && *started_by != '\0' ? started_by : "python3";
}

std::vector<std::string> python_environment(const std::string& file) {
  std::string path = shipped_folder("apps/python", "python", file);
  std::vector<std::string> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    if (!text.starts_with("PYTHONPATH=")) variables.emplace_back(text);
    else if (const std::string_view value = text.substr(text.find('=') + 1); !value.empty())
      path += (path.empty() ? "" : ":") + std::string(value);
  }
  if (!path.empty()) variables.push_back("PYTHONPATH=" + path);
  return variables;
}

std::vector<char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace qrl::base

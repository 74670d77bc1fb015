// Owns the helpers of the recipe tests: reading a text, and the faults of a text.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::test {

using Overrides = std::vector<std::string>;

inline train::Recipe read(const std::string& yaml, const Overrides& overrides = {}, bool complete = false) {
  return train::parse_recipe(train::keys(), yaml, "r.yaml", "/d", overrides, complete).recipe;
}

/// Returns the lines of the input error that a text raises; empty if it raises none.
inline std::vector<std::string> faults(const std::string& yaml, const Overrides& overrides = {},
                                       bool complete = false) {
  std::vector<std::string> lines;
  try {
    read(yaml, overrides, complete);
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    std::string text = error.what();
    for (std::size_t end = 0; end != std::string::npos; text.erase(0, end + 1)) {
      end = text.find('\n');
      lines.push_back(text.substr(0, end));
      if (end == std::string::npos) break;
    }
  }
  return lines;
}

/// Returns the single fault of a text; fails the test unless exactly one exists.
inline std::string fault(const std::string& yaml, const Overrides& overrides = {}, bool complete = false) {
  const auto lines = faults(yaml, overrides, complete);
  INFO("of: " << yaml);
  CHECK(lines.size() == 1);
  return lines.empty() ? "no fault" : lines.front();
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace qrl::test

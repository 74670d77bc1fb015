#include "config/faults.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace qrl::config {

void Faults::add(const std::string& where, const std::string& expected, const std::string& got,
                 const std::string& advice) {
  if (full()) {
    ++num_more_;
    return;
  }
  lines_.emplace_back(base::Error(base::ErrorKind::input, where, expected, got, advice).what());
}

void Faults::raise() const {
  if (lines_.empty()) return;
  std::string text;
  for (const std::string& line : lines_) text += (text.empty() ? "" : "\n") + line;
  if (num_more_ > 0) text += "\n… and " + std::to_string(num_more_) + " more";
  throw base::Error(base::ErrorKind::input, text, "", "");
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  const bool plain = !name.empty() && name.size() <= kLongest &&
                     std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return plain ? std::string(name) : base::quoted(name, kLongest);
}

}  // namespace qrl::config

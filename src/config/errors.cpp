#include "config/errors.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace qrl::config {

void Errors::add(const std::string& where, const std::string& expected, const std::string& got,
                 const std::string& advice) {
  if (full()) {
    ++num_more_;
    return;
  }
  lines_.emplace_back(base::Error(base::ErrorKind::input, where, expected, got, advice).what());
}

void Errors::add_unknown_key(const std::string& where, const std::string& advice) {
  if (full()) ++num_more_;
  else unknown_keys_.emplace_back(where, advice);
}

void Errors::take(Errors&& other) {
  for (std::string& line : other.lines_) lines_.push_back(std::move(line));
  for (auto& key : other.unknown_keys_) unknown_keys_.push_back(std::move(key));
  num_more_ += other.num_more_;
}

std::string Errors::text() const {
  std::string text;
  const auto add_line = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const std::string& line : lines_) add_line(line);
  if (unknown_keys_.size() == 1) {
    const auto& [where, advice] = unknown_keys_.front();
    add_line(base::Error(base::ErrorKind::input, where, "a recipe key", "an unknown key", advice).what());
  } else if (!unknown_keys_.empty()) {
    add_line(std::to_string(unknown_keys_.size()) + " unknown keys (qrl-train --help-all lists all keys):");
    for (const auto& [where, advice] : unknown_keys_) add_line("  " + where + (advice.empty() ? "" : ": " + advice));
  }
  if (num_more_ > 0) text += "\n… and " + std::to_string(num_more_) + " more";
  return text;
}

void Errors::raise() const {
  if (!empty()) throw base::Error(base::ErrorKind::input, text(), "", "");
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  const bool plain = !name.empty() && name.size() <= kLongest &&
                     std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return plain ? std::string(name) : base::quoted(name, kLongest);
}

}  // namespace qrl::config

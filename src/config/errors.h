#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qrl::config {

/// Collects errors in order. Beyond a limit, it only counts them, because a hostile file may have 10⁵ errors.
class Errors {
 public:
  /// Adds a line "where: expected …, got …; advice". Parts other than `where` may be empty.
  void add(const std::string& where, const std::string& expected, const std::string& got,
           const std::string& advice = {});
  /// Adds an unknown key. text() lists several unknown keys under one sentence.
  void add_unknown_key(const std::string& where, const std::string& advice);
  bool empty() const { return lines_.empty() && unknown_keys_.empty(); }
  bool full() const { return lines_.size() + unknown_keys_.size() >= kMaxLines; }
  void take(Errors&& other);
  std::string text() const;
  /// Throws one input error with all lines, if any.
  void raise() const;

 private:
  static constexpr std::size_t kMaxLines = 50;
  std::vector<std::string> lines_;
  std::vector<std::pair<std::string, std::string>> unknown_keys_;
  std::size_t num_more_ = 0;
};

std::string shown_name(std::string_view name);

}  // namespace qrl::config

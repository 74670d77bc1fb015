// Owns the list of everything wrong with a recipe, so that one run reports all of it. Knows nothing of YAML or keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qrl::config {

/// Faults in the order they were found. Text past the first kept ones is only counted: a hostile file may hold 10⁵.
class Faults {
 public:
  /// One line: "where: expected …, got …; advice". Every part but `where` may be empty.
  void add(const std::string& where, const std::string& expected, const std::string& got,
           const std::string& advice = {});
  /// A key that is none of the recipe's. Several are told together, with one sentence for all.
  void add_unknown_key(const std::string& where, const std::string& advice);
  bool empty() const { return lines_.empty() && unknown_keys_.empty(); }
  /// True when further faults are only counted, so that making their text is wasted.
  bool full() const { return lines_.size() + unknown_keys_.size() >= kMaxLines; }
  /// Adds another list's faults behind its own.
  void take(Faults&& other);
  /// All lines; "" without faults.
  std::string text() const;
  /// Throws one input error with all lines; returns when there are none.
  void raise() const;

 private:
  static constexpr std::size_t kMaxLines = 50;
  std::vector<std::string> lines_;
  std::vector<std::pair<std::string, std::string>> unknown_keys_;  ///< where, advice
  std::size_t num_more_ = 0;
};

/// An untrusted name as it may stand in a message: itself when it is of plain visible characters, else quoted.
std::string shown_name(std::string_view name);

}  // namespace qrl::config

// Owns the list of all faults of a recipe, so that one run reports all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qrl::config {

/// Collects faults in the order of detection. Beyond a limit faults are only counted: a hostile file may have 10⁵.
class Faults {
 public:
  /// Adds one line: "where: expected …, got …; advice". Every part but `where` may be empty.
  void add(const std::string& where, const std::string& expected, const std::string& got,
           const std::string& advice = {});
  /// Adds an unknown key. Several unknown keys share one sentence.
  void add_unknown_key(const std::string& where, const std::string& advice);
  bool empty() const { return lines_.empty() && unknown_keys_.empty(); }
  /// Returns true if further faults are only counted, so building their text is wasted.
  bool full() const { return lines_.size() + unknown_keys_.size() >= kMaxLines; }
  /// Appends the faults of another list.
  void take(Faults&& other);
  /// Returns all lines; "" without faults.
  std::string text() const;
  /// Throws one input error with all lines; returns if the list is empty.
  void raise() const;

 private:
  static constexpr std::size_t kMaxLines = 50;
  std::vector<std::string> lines_;
  std::vector<std::pair<std::string, std::string>> unknown_keys_;  ///< where, advice
  std::size_t num_more_ = 0;
};

/// Returns an untrusted name for a message, quoted unless all of its characters are plain and visible.
std::string shown_name(std::string_view name);

}  // namespace qrl::config

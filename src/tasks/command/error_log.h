// Owns the workers' standard error, in a file of limited size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace qrl::tasks {

class ErrorLog {
 public:
  static constexpr std::int64_t kMaxBytes = 10'000'000;
  explicit ErrorLog(std::int64_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}
  /// Writes the newest text so far, at most a fifth of the limit, to `file`. Also writes later text there.
  void open(const std::filesystem::path& file);
  /// Writes the newest text so far, and later text, to this process's standard error.
  void show();
  bool is_shown() const { return is_shown_; }
  /// Appends `text`. If the file then exceeds the limit, keeps only its newer half, in whole lines.
  void add(std::string_view text);

 private:
  void write(std::string_view text);

  std::int64_t max_bytes_;
  std::filesystem::path file_;
  bool is_shown_ = false;
  std::string before_;  ///< newest text before `open`
};

}  // namespace qrl::tasks

// Owns what the workers of a command write to standard error: a file that does not grow without end.
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
  /// Appends to `file` from here on, first what came before (of that the newest tenth of a file at most).
  void open(const std::filesystem::path& file);
  /// Writes to this process's standard error from here on, first what came before.
  void show();
  /// Beyond the largest size the older half of the file goes, in whole lines.
  void add(std::string_view text);

 private:
  void write(std::string_view text);

  std::int64_t max_bytes_;
  std::filesystem::path file_;
  bool is_shown_ = false;
  std::string before_;  ///< while there is no file
};

}  // namespace qrl::tasks

// Owns one worker of a command: its process, the lines it sends and receives, and the rows it must judge.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/command/error_log.h"
#include "tasks/command/process.h"

namespace qrl::tasks {

inline constexpr std::size_t kMaxRewardLine_bytes = std::size_t{64} << 20;

/// Holds a row, or a conversation, that waits for the worker's answer.
struct HeldRow {
  std::size_t row = 0;
  std::uint64_t id = 0;
  double since_s = 0;
};

class Worker {
 public:
  Worker(const Program& program, ErrorLog& log, std::size_t max_line_bytes);

  Process& process() { return process_; }
  /// Queues a line (with its newline) and writes what the pipe accepts. Returns false if the worker has closed its
  /// input.
  bool send(std::string_view line);
  bool has_unsent() const { return sent_ < unsent_.size(); }
  bool flush();

  enum class Input : std::uint8_t { open, ended, too_long };
  Input read();
  /// Returns the next whole line, valid until the next `read` or `next_line`.
  std::optional<std::string_view> next_line();
  void read_errors();
  /// Returns the newest lines of standard error, at most 20, each with a newline.
  std::string last_errors();

  std::size_t max_line_bytes() const { return max_line_bytes_; }

  bool is_ready = false;
  bool had_rows = false;
  double started_s = 0;
  std::vector<HeldRow> held;

 private:
  std::size_t max_line_bytes_;
  ErrorLog& log_;
  Process process_;
  std::vector<char> piece_;
  std::string unsent_;
  std::size_t sent_ = 0;
  std::string received_;
  std::size_t taken_ = 0;    ///< bytes of received_ that next_line has returned
  std::size_t scanned_ = 0;  ///< bytes of received_ that are returned or have no newline
  std::deque<std::string> errors_;
  std::string error_line_;  ///< incomplete last line
};

}  // namespace qrl::tasks

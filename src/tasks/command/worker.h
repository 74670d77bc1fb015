// Owns one worker of a command: its process, the lines on their way to it and from it, and the rows it holds. Knows
// nothing of what the lines mean.
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

/// Longest line from a worker.
inline constexpr std::size_t kMaxCommandLine_bytes = std::size_t{64} << 20;

/// A row that a worker has and did not answer.
struct HeldRow {
  std::size_t row = 0;
  std::uint64_t id = 0;
  double since_s = 0;
};

class Worker {
 public:
  /// Starts the program.
  Worker(const Program& program, ErrorLog& log);

  Process& process() { return process_; }
  /// Puts a line (with its end) behind those that wait, and writes what the pipe takes. False: nobody reads.
  bool send(std::string_view line);
  bool has_unsent() const { return sent_ < unsent_.size(); }
  bool flush();

  enum class Input : std::uint8_t { open, ended, too_long };
  /// Reads what there is without waiting.
  Input read();
  /// The next whole line, which lives until the next call of either function.
  std::optional<std::string_view> next_line();
  void read_errors();
  /// The newest lines of its standard error, 20 at most, each behind a line break; "" when there are none.
  std::string last_errors();

  bool is_ready = false;
  double started_s = 0;
  std::vector<HeldRow> held;

 private:
  ErrorLog& log_;
  Process process_;
  std::vector<char> piece_;  ///< what one read gives
  std::string unsent_;
  std::size_t sent_ = 0;
  std::string received_;
  std::size_t taken_ = 0;    ///< bytes of received_ that next_line gave
  std::size_t scanned_ = 0;  ///< bytes of received_ without a line's end behind taken_
  std::deque<std::string> errors_;
  std::string error_line_;  ///< unfinished
};

}  // namespace qrl::tasks

// Owns the workers of a program, from their start to their end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tasks/command/error_log.h"
#include "tasks/command/process.h"
#include "tasks/command/worker.h"

namespace qrl::tasks {

struct CrewSettings {
  Program program;
  std::string hello;  ///< first line for each worker, with newline
  std::int64_t num_workers = 1;
  double start_timeout_s = 60;
  std::string start_key = "reward.start_timeout_s";   ///< key of start_timeout_s
  std::string work = "row";                           ///< what workers get, in errors
  std::size_t max_line_bytes = kMaxRewardLine_bytes;  ///< limit on a line of the program
  std::vector<std::string> withheld = {};             ///< names of withheld environment variables
};

/// Returns settings for a program with an executable and an environment. Throws an input error for a program or a
/// variable that does not exist.
CrewSettings crew_settings(const std::string& section, const std::vector<std::string>& argv, const std::string& folder,
                           const std::vector<std::string>& env, std::int64_t memory_bytes);

class Crew {
 public:
  explicit Crew(CrewSettings settings);
  /// Closes the workers' input; after 2 s kills the remaining workers and their processes.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Starts the first worker and returns the object in its ready line. On failure, throws an input error with the
  /// worker's last error lines.
  std::string start();

  void log_to(const std::filesystem::path& file) { log_.open(file); }
  void show_log() { log_.show(); }
  /// Appends the text to the log, unless one that is equal up to its last line was appended before.
  void log_once(const std::string& text);
  /// Returns the newest standard error lines of the worker that failed last.
  const std::string& last_errors() const { return last_errors_; }
  std::int64_t take_restarts() { return std::exchange(num_restarts_, 0); }

 protected:
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::vector<std::size_t> again;  ///< stack of rows or conversations that the next worker gets again
  };

  std::string key() const { return settings_.program.section + ".command"; }
  void start_worker(Slot& slot);
  /// Kills the worker and its processes; returns how the program ended.
  std::string end_worker(Slot& slot);
  static void wait_for_end(const Slot& slot);
  /// All workers must send the same ready line.
  void take_ready(Slot& slot, std::string_view line);
  /// Throws the error of a failed start. `got`: the line received; empty if the program ended or closed its output.
  [[noreturn]] void refuse_start(Slot& slot, const std::string& got);
  [[noreturn]] void refuse_ended(Slot& slot);
  /// Throws the error of a line between the ready line and the first request.
  [[noreturn]] void refuse_early(Slot& slot, std::string_view line);
  void refuse_if_late(Slot& slot);
  double next_start_deadline_s() const;
  /// Waits until a worker writes, can read what is unsent, or has ended; at most until the deadline and for `most_s`.
  void poll_workers(double deadline_s, double most_s);

  CrewSettings settings_;
  ErrorLog log_;
  std::vector<Slot> slots_;
  std::string last_errors_;
  std::int64_t num_restarts_ = 0;

 private:
  std::string ready_;             ///< the first worker's ready object; "": none yet
  std::set<std::string> logged_;  ///< texts of log_once, of limited number
};

}  // namespace qrl::tasks

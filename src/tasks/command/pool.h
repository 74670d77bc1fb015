#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tasks/command/error_log.h"
#include "tasks/command/process.h"
#include "tasks/command/worker.h"

namespace qrl::tasks {

struct PoolSettings {
  Program program;
  std::string hello;  ///< first line for each worker, with newline
  std::int64_t num_workers = 1;
  std::int64_t in_flight = 1;
  double timeout_s = 10, start_timeout_s = 60;
  std::vector<std::string> withheld;  ///< names of withheld environment variables
};

enum class RowFault : std::uint8_t {
  timeout,   ///< no answer within timeout_s
  crashed,   ///< two workers ended while they had this row
  protocol,  ///< its worker wrote an invalid answer
};

/// Holds rows to judge and handlers of their answers. An exception in a handler ends the job and kills busy workers.
struct PoolJob {
  std::size_t num_rows = 0;
  std::function<void(std::size_t row, std::uint64_t id, std::string& line)> write;
  /// Processes an answer; returns false if the protocol does not allow it.
  std::function<bool(std::size_t row, const nlohmann::json& answer)> accept;
  std::function<void(std::size_t row, RowFault fault)> fail;
  std::function<void()> pause;  ///< called at least every 100 ms; may be empty
};

/// Answers or fails each row exactly once, within rows × timeout_s plus the start times of new workers. A failed worker
/// is killed with all its processes. A new worker gets the rows that did not fail. After a crash, it gets them one at a
/// time.
class Pool {
 public:
  explicit Pool(PoolSettings settings);
  /// Closes the workers' input; after 2 s kills the remaining workers and their processes.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Starts the first worker and returns the object in its ready line. On failure, throws an input error with the
  /// worker's last error lines.
  std::string start();
  /// All workers must send the same ready line.
  void run(const PoolJob& job);

  void log_to(const std::filesystem::path& file) { log_.open(file); }
  void show_log() { log_.show(); }
  /// Appends the text to the log, unless one that is equal up to its last line was appended before.
  void log_once(const std::string& text);
  /// Returns the newest standard error lines of the worker that failed last.
  const std::string& last_errors() const { return last_errors_; }
  std::vector<double> take_row_ms() { return std::exchange(row_ms_, {}); }
  std::int64_t take_restarts() { return std::exchange(num_restarts_, 0); }

 private:
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::vector<std::size_t> again;  ///< stack of rows that the next worker gets again
  };
  struct Work;

  void start_worker(Slot& slot);
  /// Kills the worker and its processes; returns how the program ended.
  std::string end_worker(Slot& slot);
  void take_ready(Slot& slot, std::string_view line);
  /// Throws the error of a failed start. `got`: the line received; empty if the program ended or closed its output.
  [[noreturn]] void refuse_start(Slot& slot, const std::string& got);
  void start_workers(Work& work);
  void wait(Work& work);
  void attend(Slot& slot, Work& work);
  void take_lines(Slot& slot, Work& work);
  void give_rows(Slot& slot, Work& work);
  void check_deadlines(Slot& slot, Work& work);
  void died(Slot& slot, Work& work);
  void break_protocol(Slot& slot, Work& work, const std::string& what);

  PoolSettings settings_;
  ErrorLog log_;
  std::vector<Slot> slots_;
  std::string ready_;  ///< the first worker's ready object; "": none yet
  std::uint64_t next_id_ = 1;
  std::string last_errors_;
  std::vector<double> row_ms_;
  std::int64_t num_restarts_ = 0;
  std::set<std::string> logged_;  ///< texts of log_once, of limited number
};

}  // namespace qrl::tasks

// Owns a pool of workers: distribution of rows, time limits, crashes and restarts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasks/command/error_log.h"
#include "tasks/command/process.h"
#include "tasks/command/worker.h"

namespace qrl::tasks {

struct PoolSettings {
  Program program;
  std::string hello;  ///< the first line to each worker, with its newline
  std::int64_t num_workers = 1;
  std::int64_t in_flight = 1;  ///< rows per worker
  double timeout_s = 10, start_timeout_s = 60;
  std::vector<std::string> withheld;  ///< names of variables that the program lacks, for the error of a failed start
};

/// Says why a row has no answer.
enum class RowFault : std::uint8_t {
  timeout,   ///< not answered within timeout_s after a worker received it
  crashed,   ///< two workers ended while they held it
  protocol,  ///< its worker wrote an invalid answer
};

/// Holds the rows to judge and the handlers of answers. An exception in a handler ends the job and kills the workers
/// that hold rows.
struct PoolJob {
  std::size_t num_rows = 0;
  /// Appends the line of a row, with its newline.
  std::function<void(std::size_t row, std::uint64_t id, std::string& line)> write;
  /// Processes an answer; returns false if the protocol does not allow it.
  std::function<bool(std::size_t row, const nlohmann::json& answer)> accept;
  std::function<void(std::size_t row, RowFault fault)> fail;
  std::function<void()> pause;  ///< called at least every 100 ms; may be empty
};

/// Answers or fails each row exactly once, within rows × timeout_s plus the start time of new workers. A worker that
/// fails is killed with all processes that it started, and a new worker gets its rows. After a crash, each of these
/// rows runs alone, so that the next crash can be attributed.
class Pool {
 public:
  /// Starts no worker.
  explicit Pool(PoolSettings settings);
  /// Closes the workers' standard input, and after 2 s kills the remaining workers and all processes that they started.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Starts the first worker and returns the object of its ready line. Throws an input error with the worker's last
  /// error lines if it does not become ready.
  std::string start();
  /// Runs a job. Every later worker must send the same ready line.
  void run(const PoolJob& job);

  void log_to(const std::filesystem::path& file) { log_.open(file); }
  void show_log() { log_.show(); }
  /// Returns the newest lines of standard error of the worker that failed last.
  const std::string& last_errors() const { return last_errors_; }
  std::vector<double> take_row_ms() { return std::exchange(row_ms_, {}); }
  std::int64_t take_restarts() { return std::exchange(num_restarts_, 0); }

 private:
  /// Holds a worker and the rows that only the next worker in this slot may get.
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::vector<std::size_t> again;  ///< a stack: its last row is next
  };
  struct Work;

  void start_worker(Slot& slot);
  /// Kills the worker and all processes that it started. Returns how the program ended.
  std::string end_worker(Slot& slot);
  void take_ready(Slot& slot, std::string_view line);
  /// Throws the error of a failed start. An empty `got` means that the program ended or closed its standard output.
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
  std::string ready_;  ///< the first ready line; "": none yet
  std::uint64_t next_id_ = 1;
  std::string last_errors_;
  std::vector<double> row_ms_;
  std::int64_t num_restarts_ = 0;
};

}  // namespace qrl::tasks

// Owns a pool of workers: who gets which row, time limits, deaths and fresh workers. Knows of the protocol that lines
// are JSON objects with an id, and that a worker begins with a ready line.
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
  std::string hello;  ///< first line to each worker, with its end
  std::int64_t num_workers = 1;
  std::int64_t in_flight = 1;  ///< rows that a worker holds at once
  double timeout_s = 10, start_timeout_s = 60;
  std::string withheld;  ///< what the error of a failed start says of its environment; may be empty
};

/// Why a row has no answer.
enum class RowFault : std::uint8_t {
  timeout,   ///< not within timeout_s of when a worker got it
  crashed,   ///< two workers ended while they had it
  protocol,  ///< its worker wrote what is no answer
};

/// What is to be answered, and what happens to answers. An exception of a function ends the work; workers that hold
/// rows then are killed.
struct PoolJob {
  std::size_t num_rows = 0;
  /// Appends the line of a row, with its end.
  std::function<void(std::size_t row, std::uint64_t id, std::string& line)> write;
  /// Takes an answer; false when it is none that the protocol allows.
  std::function<bool(std::size_t row, const nlohmann::json& answer)> accept;
  std::function<void(std::size_t row, RowFault fault)> fail;
  std::function<void()> pause;  ///< called every 100 ms or more often; may be empty
};

/// Each row is answered or failed once, whatever workers do, within rows × timeout_s and the time that fresh workers
/// take to start. A worker that misbehaved is killed with all it started; a fresh one takes its place. Rows it had go
/// to that one: a row whose worker died stands alone there, so that the next death is its own.
class Pool {
 public:
  /// Starts nothing.
  explicit Pool(PoolSettings settings);
  /// Closes the workers' standard input, and kills what is left of them and of what they started 2 s later.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Starts the first worker and gives the object of its ready line. Throws an input error with its last words when it
  /// does not become ready.
  std::string start();
  /// All later workers must say the same.
  void run(const PoolJob& job);

  void log_to(const std::filesystem::path& file) { log_.open(file); }
  void show_log() { log_.show(); }
  /// The newest lines of standard error of the worker that failed last.
  const std::string& last_errors() const { return last_errors_; }
  std::vector<double> take_row_ms() { return std::exchange(row_ms_, {}); }
  std::int64_t take_restarts() { return std::exchange(num_restarts_, 0); }

 private:
  /// A place for a worker, and the rows that only the next worker here may have.
  struct Slot {
    std::unique_ptr<Worker> worker;
    std::vector<std::size_t> again;  ///< the next is the last
  };
  struct Work;  ///< a job with where it stands

  void start_worker(Slot& slot);
  /// Kills all that is left of it; how the program ended.
  std::string end_worker(Slot& slot);
  void take_ready(Slot& slot, std::string_view line);
  /// Without `got` the program has ended, or closed its standard output.
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
  std::string ready_;  ///< what the first ready line said; "": none yet
  std::uint64_t next_id_ = 1;
  std::string last_errors_;
  std::vector<double> row_ms_;
  std::int64_t num_restarts_ = 0;
};

}  // namespace qrl::tasks

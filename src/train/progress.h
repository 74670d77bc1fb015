// Owns what a person watching a run sees on standard output: on a terminal one line that rewrites itself, piped a plain
// line a step. Lines of the log never run into it. Knows nothing of metrics files.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "train/run_folder.h"

namespace qrl::train {

class Progress {
 public:
  /// `what` begins every line ("cold start", "step"); quiet ranks print nothing.
  Progress(std::string what, std::int64_t first_step, std::int64_t last_step, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows step `step` as done, with `facts` ("reward 0.31  length 18.2 …") and the time left at the pace so far.
  void show(std::int64_t step, const std::string& facts);
  /// Columns of a terminal that shows UTF-8; 0 in a pipe, under mpirun and on other terminals.
  int columns() const;
  /// Prints a line of its own, which stays, also in the log file.
  void say(const std::string& line);

 private:
  std::string what_;
  std::int64_t first_step_, last_step_;
  bool quiet_, terminal_;
  std::atomic<bool> line_open_ = false;  ///< the next log line ends it
  double start_s_;
};

/// Returns e.g. "reward 0.312  length 18.4  gap 1.2e-04  5321 tok/s" from a step's metrics.
std::string step_facts(const Metrics& metrics);
/// Does the same for a terminal's line: the reward's course so far, and the held-out score unless it is NaN.
std::string terminal_facts(const Metrics& metrics, std::span<const double> rewards, double held_out, int columns);
/// Returns e.g. "3m05s".
std::string duration_text(double seconds);

}  // namespace qrl::train

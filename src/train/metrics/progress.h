// Owns a run's standard output (one rewritten line on a terminal, one line per step in a pipe), and the progress lines
// of a long generation.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "decoder/decoder.h"
#include "train/files/run_folder.h"

namespace qrl::train {

class Progress {
 public:
  Progress(std::string what, std::int64_t first_step, std::int64_t last_step, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `step` as done, with `facts` ("reward 0.31  length 18.2 …") and the estimated time left.
  void show(std::int64_t step, const std::string& facts);
  /// Returns the width of a UTF-8 terminal in columns, else 0.
  int columns() const;
  /// Prints a permanent line, also to the log file.
  void say(const std::string& line);

 private:
  std::string what_;
  std::int64_t first_step_, last_step_;
  bool quiet_, terminal_;
  std::atomic<bool> line_open_ = false;  ///< whether the terminal's current line still needs a newline
  double start_s_;
};

/// Returns "reward 0.312 length 18.4 gap 1.2e-04 5321 tok/s", for example.
std::string step_facts(const Metrics& metrics);
/// Returns step_facts with a sparkline of `rewards` in place of "length 18.4". Adds `held_out` unless it is NaN.
std::string terminal_facts(const Metrics& metrics, std::span<const double> rewards, double held_out, int columns);
/// Returns "3m05s", for example.
std::string duration_text(double seconds);

/// Logs lines such as "WHAT: 34 of 200 responses, left 1m05s" during its lifetime. Intervals double from 10 s to a
/// minute. Only one object may exist at a time, on the decoder's thread.
class GenerationProgress {
 public:
  GenerationProgress(std::string what, std::int64_t num_responses, const decoder::Decoder& decoder);
  ~GenerationProgress();
  GenerationProgress(const GenerationProgress&) = delete;
  GenerationProgress& operator=(const GenerationProgress&) = delete;

  /// Logs a line if due.
  static void tick();
  /// Sets the delay of the first line for tests. The default is 10 s.
  static void set_first_line_s(double seconds);

 private:
  void show();

  std::string what_;
  std::int64_t num_responses_;
  const decoder::Decoder& decoder_;
  std::int64_t finished_before_;
  double start_s_, next_s_;
};

}  // namespace qrl::train

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace qrl::train {

/// Sends a run's rows, recipe and samples to Weights & Biases. A child process does the work: apps/python/qrl_log.py
/// reads the run folder. The child has a session of its own, and a kill of the run or of the child harms neither.
class WandbLogger {
 public:
  /// Returns why the child could not send a run: no Python, no wandb or no login; "" if it could. Takes seconds.
  static std::string fault();

  /// Starts the child. Throws an input error if there is no Python.
  explicit WandbLogger(const std::filesystem::path& run_folder);
  /// Closes the child's input, after which it sends the rest and ends. Waits at most 30 s, then it goes on alone.
  ~WandbLogger();
  WandbLogger(const WandbLogger&) = delete;
  WandbLogger& operator=(const WandbLogger&) = delete;

 private:
  std::string command_;  ///< what a user can start instead
  pid_t child_ = -1;
  int input_ = -1;  ///< write end of the child's standard input
};

}  // namespace qrl::train

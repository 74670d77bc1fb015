#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tasks/environment/protocol.h"
#include "tasks/environment/sessions.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

/// Describes the user's program that answers turns. tasks/keys.h declares the members before `weights`.
struct EnvironmentOptions {
  std::vector<std::string> argv = {};  ///< environment.command; empty: no environment
  std::string folder = {};             ///< absolute path; default: folder of the recipe that sets `argv`
  std::vector<std::string> env = {};   ///< environment variables passed on, besides those that programs need
  EnvironmentStyle style = EnvironmentStyle::chat;
  ObservationRole role = ObservationRole::tool;
  std::int64_t max_turns = 8;
  double timeout_s = 60, setup_timeout_s = 300;  ///< per answer; setup_timeout_s: to a start or a row
  std::int64_t workers = 0;                      ///< processes; 0: half the process's threads, at least 1
  std::int64_t sessions = 16;                    ///< conversations per worker at once
  std::int64_t memory_mb = 0;                    ///< MiB of address space per worker; 0: no limit
  OnVerifierError on_error = OnVerifierError::drop;
  std::map<std::string, double> weights = {};  ///< weights of the program's scores, instead of its own
  double correct_at = kUsualCorrectAt;
  std::uint64_t seed = 0;
  std::string run_folder = {};  ///< "": none
};

/// Owns a run's environment. Its workers start at the first use. Only one thread may call.
class Environment {
 public:
  /// Throws an input error if the program does not exist.
  explicit Environment(const EnvironmentOptions& options);

  /// Starts the first worker at the first call, and tells it the first row; null: unknown. Throws an input error if it
  /// does not become ready.
  const EnvironmentReady& start(const Question* first = nullptr);
  /// Returns whether the environment gives the scores.
  bool judges() { return !start().scores.empty(); }
  const std::vector<double>& weights() {
    start();
    return weights_;
  }
  /// Returns the rows of a set, "train" or "val", as JSON objects. Throws an input error if a row cannot be had.
  std::vector<std::string> rows(std::string_view set, std::int64_t count);

  Sessions& sessions();
  const EnvironmentOptions& options() const { return options_; }
  bool is_chat() const { return options_.style == EnvironmentStyle::chat; }

  /// Returns the verdict of a conversation that is done, from the sums of its scores and the last answer's `closing`.
  Verdict verdict(std::vector<double> scores, const std::string& closing);
  /// Returns the verdict of a conversation that could not be played. `num_scores`: scores of the run's verifier.
  Verdict failed(std::string_view reason, std::string detail, std::size_t num_scores) const;

  void log_to(const std::filesystem::path& file);
  void show_log();

 private:
  EnvironmentOptions options_;
  CrewSettings settings_;
  std::filesystem::path log_file_;
  bool shows_log_ = false;
  EnvironmentReady ready_;
  std::vector<double> weights_;
  std::unique_ptr<Sessions> sessions_;
};

}  // namespace qrl::tasks

// Owns the data of the live page as JSON: the runs below the given folders, and their files as they grow.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/rules.h"

namespace qrl::report {

/// Finds runs below folders, and searches again at each call. Thread-safe.
class LiveRuns {
 public:
  /// Takes folders of runs, or run folders. Throws an input error if one of `roots` is no folder.
  explicit LiveRuns(std::vector<std::filesystem::path> roots);

  /// Returns the runs in order of name: `[{name, running, ended, step, total_steps, cold_update, cold_updates, seconds,
  /// reward, held_out, tokens_per_s, left_s, bad, bytes, cold_bytes, starts}]`.
  nlohmann::ordered_json list();
  // These take a name from `list`, and return nothing if the run does not exist (any more).
  std::optional<nlohmann::ordered_json> run(const std::string& name);
  /// Returns the rows after byte `since` of metrics.jsonl and after byte `cold_since` of sft_metrics.jsonl, and
  /// everything else that changes.
  std::optional<nlohmann::ordered_json> rows(const std::string& name, std::uint64_t since, std::uint64_t cold_since);
  /// Returns the held-out answers of evaluations in the form that `run` has.
  std::optional<nlohmann::ordered_json> validation(const std::string& name);
  std::optional<nlohmann::ordered_json> samples(const std::string& name, std::int64_t step);

 private:
  /// Caches what has been read of a run.
  struct Followed {
    std::uint64_t num_bytes = 0, num_cold_bytes = 0;
    std::size_t num_starts = 0;
    std::string ended;  ///< the end of the last start; empty while it is running
    std::int64_t cold_update = 0;
    double first_unix_s = kNan;
    Course course;
    Metrics last;  ///< from the newest row that has each metric
    std::int64_t step = 0;
    std::vector<double> step_s;  ///< seconds of each training step
  };
  std::map<std::string, std::filesystem::path> find() const;
  /// Returns an item of `list`. If the run's files cannot be read, its `ended` says why.
  nlohmann::ordered_json entry(const std::string& name, const std::filesystem::path& dir);
  const Followed& follow(const std::filesystem::path& dir);

  std::vector<std::filesystem::path> roots_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Followed> followed_;
};

}  // namespace qrl::report

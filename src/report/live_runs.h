// Owns what the live page asks for: the runs of folders and their files as they grow, as JSON. Knows nothing of HTTP.
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

/// Runs that are found below folders, looked at again with each question. Thread-safe.
class LiveRuns {
 public:
  /// `roots`: folders of runs, or run folders. An input error where one is no folder.
  explicit LiveRuns(std::vector<std::filesystem::path> roots);

  /// [{name, running, ended, step, total_steps, cold_update, cold_updates, seconds, reward, held_out, tokens_per_s,
  /// left_s, bad, bytes, cold_bytes, starts}] in the order of names.
  nlohmann::ordered_json list();
  // Of one run by the name that `list` gave it; nothing when there is no such run (any more).
  std::optional<nlohmann::ordered_json> run(const std::string& name);
  /// The rows behind byte `since` of metrics.jsonl and `cold_since` of sft_metrics.jsonl, and what else may have
  /// changed.
  std::optional<nlohmann::ordered_json> rows(const std::string& name, std::uint64_t since, std::uint64_t cold_since);
  /// Held-out answers of evaluations, as `run` gives them.
  std::optional<nlohmann::ordered_json> validation(const std::string& name);
  std::optional<nlohmann::ordered_json> samples(const std::string& name, std::int64_t step);

 private:
  /// What was read of a run so far.
  struct Followed {
    std::uint64_t num_bytes = 0, num_cold_bytes = 0;
    std::size_t num_starts = 0;
    std::string ended;  ///< how the last start did, empty while it is open
    std::int64_t cold_update = 0;
    double first_unix_s = kNan;
    Course course;
    Metrics last;  ///< of the newest row that has each
    std::int64_t step = 0;
    std::vector<double> step_s;  ///< of each training step
  };
  std::map<std::string, std::filesystem::path> find() const;
  /// One of `list`; of a run whose files cannot be read `ended` says why.
  nlohmann::ordered_json entry(const std::string& name, const std::filesystem::path& dir);
  const Followed& follow(const std::filesystem::path& dir);

  std::vector<std::filesystem::path> roots_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Followed> followed_;
};

}  // namespace qrl::report

#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/recipe_lines.h"
#include "report/rules.h"

namespace qrl::report {

/// Finds the runs in the given folders; searches again at each call. Thread-safe.
class LiveRuns {
 public:
  /// Takes folders that contain runs, or run folders. Throws an input error if one does not exist.
  explicit LiveRuns(std::vector<std::filesystem::path> roots);

  /// Returns the runs, sorted by name: `[{name, running, ended, step, total_steps, cold_update, cold_updates, seconds,
  /// reward, held_out, tokens_per_s, left_s, bad, bytes, cold_bytes, starts}]`.
  nlohmann::ordered_json list();
  // The functions below take a name from `list`. They return nothing if the run no longer exists.
  std::optional<nlohmann::ordered_json> run(const std::string& name);
  /// Returns rows after byte `since` of metrics.jsonl and byte `cold_since` of sft_metrics.jsonl, and all other data
  /// that may change.
  std::optional<nlohmann::ordered_json> rows(const std::string& name, std::uint64_t since, std::uint64_t cold_since);
  /// Returns only `validation` of run(name): the samples of evaluations.
  std::optional<nlohmann::ordered_json> validation(const std::string& name);
  std::optional<nlohmann::ordered_json> samples(const std::string& name, std::int64_t step);

 private:
  struct Followed {
    std::uint64_t num_bytes = 0, num_cold_bytes = 0;
    std::size_t num_starts = 0;
    std::string ended;  ///< how the last start ended; empty if running or killed
    std::int64_t cold_update = 0;
    double first_unix_s = kNan;
    Course course;
    Metrics last;  ///< newest finite value of each metric
    std::int64_t step = 0;
    std::vector<double> step_s;
  };
  std::map<std::string, std::filesystem::path> find() const;
  /// Returns an item of `list`. If the folder is unreadable, the item's `ended` is the error.
  nlohmann::ordered_json entry(const std::string& name, const std::filesystem::path& dir);
  static nlohmann::ordered_json entry_of(const std::string& name, const Followed& run,
                                         const std::vector<RecipeLine>& recipe, bool running);
  /// Returns ask(folder of the named run); nothing if no such run exists or its folder was deleted meanwhile.
  template <class Ask>
  std::optional<nlohmann::ordered_json> of_run(const std::string& name, const Ask& ask) const;
  const Followed& follow(const std::filesystem::path& dir);

  std::vector<std::filesystem::path> roots_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Followed> followed_;
};

}  // namespace qrl::report

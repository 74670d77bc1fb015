// Owns a run's folder on disk: its lock, resolved recipe, metric rows and rollout dumps. Knows nothing of checkpoints'
// contents or of training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/reader.h"
#include "report/tfevents.h"
#include "state/folder.h"

namespace qrl::train {

/// Holds metric names and values of one step, in name order.
using Metrics = report::Metrics;

/// Appends metric rows to a JSONL file. Only the first rank writes; on other ranks it does nothing.
class MetricsFile {
 public:
  MetricsFile() = default;
  /// Opens for appending after cutting the file to its first `keep_bytes` bytes (what a checkpoint vouches for).
  MetricsFile(const std::filesystem::path& file, std::int64_t keep_bytes);

  /// Writes the rows so far to an events file of TensorBoard in `dir`, and every later row with append.
  void mirror_to(const std::filesystem::path& dir);
  /// Appends {"step": step, metrics…}; a value that is not finite becomes null. One write per row.
  void append(std::int64_t step, const Metrics& metrics);
  /// Appends {"step": step, "changed_on_resume": {key: [before, after], …}}: a row of its own.
  void append_changes(std::int64_t step, const std::vector<config::KeyChange>& changes);
  /// Bytes so far, after an fsync: what a checkpoint records.
  std::int64_t sync();

 private:
  std::filesystem::path file_;
  report::EventsFile events_;
};

/// Rows of a metrics file that hold `name`, as (step, value), in file order.
std::vector<std::pair<std::int64_t, double>> read_metric(const std::filesystem::path& file, const std::string& name);

/// Returns the same of a score, from the last change of how scores are made (append_changes: eval.*, data.val_files),
/// so that the rows are comparable.
std::vector<std::pair<std::int64_t, double>> read_score(const std::filesystem::path& file, const std::string& name);

class RunFolder {
 public:
  /// Creates `dir` and takes its lock; throws an input error when another run holds it.
  explicit RunFolder(const std::filesystem::path& dir);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path sft_metrics_file() const { return path_ / "sft_metrics.jsonl"; }
  std::filesystem::path sessions_file() const { return path_ / "sessions.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  /// Takes the lock again where its file was deleted; throws an input error when another run has it by now.
  void keep_lock() const { lock_.keep(); }
  /// Moves what an earlier run wrote (metric rows, rollouts, its resolved recipe) to earlier_1, earlier_2, …, with a
  /// warning that says so; nothing when no row was written.
  void set_aside_earlier_rows() const;
  /// Writes rollouts/step_N.jsonl whole (replacing what an interrupted run left).
  void write_rollouts(std::int64_t step, const std::string& jsonl) const;
  /// Does the same for validation/step_N.jsonl.
  void write_validation(std::int64_t step, const std::string& jsonl) const;

 private:
  std::filesystem::path path_;
  mutable state::FolderLock lock_;
};

}  // namespace qrl::train

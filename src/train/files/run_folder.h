#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/printer.h"
#include "report/tfevents.h"
#include "state/folder.h"

namespace qrl::train {

using Metrics = report::Metrics;

/// Appends metric rows to a JSONL file, on the first rank only.
class MetricsFile {
 public:
  MetricsFile() = default;
  /// Truncates `file` to `keep_bytes`, the size that the checkpoint recorded.
  MetricsFile(const std::filesystem::path& file, std::int64_t keep_bytes);

  /// Copies all rows, past and future, to a TensorBoard events file in `dir`. With `run_dir`, also that run's texts.
  void mirror_to(const std::filesystem::path& dir, const std::filesystem::path& run_dir = {});
  /// Appends {"step": step, metrics…} in one write; a non-finite value becomes null.
  void append(std::int64_t step, const Metrics& metrics);
  /// Appends a row {"step": step, "changed_on_resume": {key: [before, after], …}}.
  void append_changes(std::int64_t step, const std::vector<config::KeyChange>& changes);
  /// Fsyncs; returns the file's size.
  std::int64_t sync();

 private:
  std::filesystem::path file_;
  report::EventsFile events_;
};

/// Returns a score's (step, value) pairs in file order. Omits pairs before the last resume that changed eval.* or the
/// held-out data.
std::vector<std::pair<std::int64_t, double>> read_score(const std::filesystem::path& file, const std::string& name);

/// Returns `dir`, or the nearest folder or file above it that exists; absolute.
std::filesystem::path existing_part(const std::filesystem::path& dir);

/// Throws an input error if `dir` cannot be a run folder: not a folder, not writable, in use, or no place for output
/// (state/sealed.h). Writes nothing.
void check_run_folder(const std::filesystem::path& dir);

class RunFolder {
 public:
  /// Creates `dir` and locks it. Throws an input error if another run holds the lock, or for no place for output.
  explicit RunFolder(const std::filesystem::path& dir);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path sft_metrics_file() const { return path_ / "sft_metrics.jsonl"; }
  std::filesystem::path sessions_file() const { return path_ / "sessions.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  /// Locks again if the lock file was deleted; throws an input error if another run has locked it.
  void keep_lock() const { lock_.keep(); }
  /// Moves an earlier run's metric rows, rollouts and recipe to a new folder earlier_N, with a warning.
  void set_aside_earlier_rows() const;
  /// Write rollouts/step_N.jsonl or validation/step_N.jsonl, replacing an interrupted run's file.
  void write_rollouts(std::int64_t step, const std::string& jsonl) const;
  void write_validation(std::int64_t step, const std::string& jsonl) const;
  /// Fsyncs the files of steps written since the last call, so that a checkpoint of these steps never outlives them.
  void sync_steps() const;

 private:
  std::filesystem::path path_;
  mutable std::vector<std::filesystem::path> unsynced_;
  mutable state::FolderLock lock_;
};

}  // namespace qrl::train

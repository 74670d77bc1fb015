#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/config.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Describes the checkpoints of one phase: cold start or RL.
struct CheckpointRoom {
  double bytes_each = 0;       ///< bytes of fp32 weights (or adapters) and moments; excludes tokenizer and texts
  std::int64_t most_kept = 0;  ///< number of checkpoints at the run's end
  bool replaces = false;       ///< if set, a new checkpoint is written before an old one is removed
};

struct DiskEstimate {
  CheckpointRoom cold_start, rl;
  /// Returns the bytes of all kept checkpoints, plus those of one more if `replaces` is set for the last phase.
  double most_bytes() const;
};

DiskEstimate estimate_disk(const Recipe& recipe, const model::ModelConfig& config);

struct FreeDisk {
  std::filesystem::path folder;  ///< trainer.default_local_dir, or the nearest folder above it that exists
  double bytes = 0;
};
/// Returns nothing if the system does not say.
std::optional<FreeDisk> free_disk(const Recipe& recipe);

/// Returns a warning if the run's checkpoints need more disk space than is free, else "". The run's present checkpoints
/// count as free, because they are among those that the run keeps or removes.
std::string disk_doubt(const Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

// Owns what a run's checkpoints take of a disk, worked out from recipe and model alone. Knows nothing of files.
#pragma once

#include <cstdint>

#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// Checkpoints of one phase: the cold start's, or those of RL.
struct CheckpointRoom {
  double bytes_each = 0;       ///< fp32 weights, or adapters, and moments; tokenizer and texts are not counted
  std::int64_t most_kept = 0;  ///< when the run ends
  bool replaces = false;       ///< more are saved than kept: one is written before another is removed
};

struct DiskEstimate {
  CheckpointRoom cold_start, rl;
  /// Adds up what is kept, and one more where one is written before an old one is removed.
  double most_bytes() const;
};

/// Counts the checkpoints that trainer.save_freq, sft.save_freq, trainer.max_ckpt_to_keep and trainer.keep_best leave.
DiskEstimate estimate_disk(const config::Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

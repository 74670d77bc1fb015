// Owns the disk space of a run's checkpoints, computed from recipe and model.
#pragma once

#include <cstdint>

#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// Holds one phase's checkpoints: cold start or RL.
struct CheckpointRoom {
  double bytes_each = 0;       ///< fp32 weights or adapters, and moments, without tokenizer and texts
  std::int64_t most_kept = 0;  ///< at the run's end
  bool replaces = false;       ///< more are saved than kept: the next is written before one is removed
};

struct DiskEstimate {
  CheckpointRoom cold_start, rl;
  /// Sums the kept ones, and one more if it is written before a removal.
  double most_bytes() const;
};

/// Counts checkpoints by trainer.save_freq, sft.save_freq, trainer.max_ckpt_to_keep and trainer.keep_best.
DiskEstimate estimate_disk(const config::Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

#pragma once

#include <cstdint>

#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// The checkpoints of one phase: cold start or RL.
struct CheckpointRoom {
  double bytes_each = 0;       ///< fp32 weights or adapters, and moments; no tokenizer and texts
  std::int64_t most_kept = 0;  ///< at the run's end
  bool replaces = false;       ///< the next one is written before an old one is removed
};

struct DiskEstimate {
  CheckpointRoom cold_start, rl;
  /// Returns the bytes of the kept checkpoints, plus one more if `replaces`.
  double most_bytes() const;
};

/// Estimates from save_freq, trainer.max_ckpt_to_keep and trainer.keep_best.
DiskEstimate estimate_disk(const config::Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

// Owns how many operations an update of the learner takes at least: `perf/mfu` divides by the time it took. Knows no
// clock.
#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "types/batch.h"

namespace qrl::train {

/// Weights that matmuls read: of all blocks' linear layers, and of lm_head. An embedding is looked up.
struct MatmulParams {
  double layers = 0, lm_head = 0;
};
MatmulParams matmul_params(const model::ModelConfig& config);

/// Operations of forward and backward of these micro-batches: 6 · parameters · rows, of lm_head the `counted` rows
/// alone, and 12 · visible positions · query width a layer for causal attention. A shared prompt counts once;
/// recomputation does not.
double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens);

}  // namespace qrl::train

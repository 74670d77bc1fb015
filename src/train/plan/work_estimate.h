#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "types/batch.h"

namespace qrl::train {

/// The weights that multiply a token: linear layers of all blocks (of experts, those of its route) and lm_head; not the
/// embedding.
struct MatmulParams {
  double layers = 0, lm_head = 0;
};
MatmulParams matmul_params(const model::ModelConfig& config);

/// Returns the operations of forward and backward pass: 6 · parameters · rows (lm_head: only `counted` rows), and 12 ·
/// visible positions · query width per layer for causal attention. Counts a shared prompt once, and no recomputation.
double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens);

}  // namespace qrl::train

#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "types/batch.h"

namespace qrl::train {

/// Holds the number of weights in a token's matmuls: linear layers of all blocks (of experts, only the token's) and
/// lm_head, without the embedding.
struct MatmulParams {
  double layers = 0, lm_head = 0;
};
MatmulParams matmul_params(const model::ModelConfig& config);

/// Returns the operations of forward and backward pass: 6 · parameters · rows, and 12 · attended positions · query
/// width per layer for causal attention. lm_head's rows are the counted_tokens, those in the loss. Counts a shared
/// prompt once, and no recomputation.
double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens);

}  // namespace qrl::train

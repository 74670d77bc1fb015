#pragma once

#include <cstdint>
#include <span>

#include "model/config.h"
#include "types/batch.h"

namespace qrl::train {

/// Holds the number of weights in a token's matmuls: all blocks' linear layers and lm_head, not the embedding. Only the
/// token's experts count.
struct MatmulParams {
  double layers = 0, lm_head = 0;
};
MatmulParams matmul_params(const model::ModelConfig& config);

/// Returns the operations of a token in the states of all DeltaNet layers: 6 · a state.
double delta_operations(const model::ModelConfig& config);

/// Returns the operations of forward and backward pass: 6 · parameters · rows, plus 12 · attended positions · query
/// width per layer for causal attention, plus 3 · delta_operations · rows. For lm_head, rows are the counted_tokens
/// (tokens in the loss). Counts a shared prompt once. Does not count recomputation.
double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens);

}  // namespace qrl::train

// Owns the check that a recipe's decoder fits its model and the machine, in the recipe's words. The decoder knows only
// its own options. Knows nothing of how it is used.
#pragma once

#include "decoder/decoder.h"
#include "model/config.h"

namespace qrl::train {

/// Throws an input error if sequences of `max_tokens` are beyond the model's positions.
void require_positions(const model::ModelConfig& config, std::int64_t max_tokens);

/// Returns `options`. Throws input errors if their longest sequence is beyond the model's positions or their KV pages
/// exceed the machine's memory.
decoder::DecoderOptions fitting(const model::ModelConfig& config, const decoder::DecoderOptions& options);

}  // namespace qrl::train

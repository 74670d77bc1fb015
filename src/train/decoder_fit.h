// Owns the check that a recipe's decoder fits its model and the machine, in the recipe's words. The decoder knows only
// its own options. Knows nothing of how it is used.
#pragma once

#include "decoder/decoder.h"
#include "model/config.h"

namespace qrl::train {

/// An input error when sequences of `max_tokens` are beyond the model's positions.
void require_positions(const model::ModelConfig& config, std::int64_t max_tokens);

/// `options`, unless their longest sequence is beyond the model's positions or their KV pages are more than the
/// machine's memory: input errors.
decoder::DecoderOptions fitting(const model::ModelConfig& config, const decoder::DecoderOptions& options);

}  // namespace qrl::train

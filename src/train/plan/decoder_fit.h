#pragma once

#include "decoder/decoder.h"
#include "model/config.h"

namespace qrl::train {

/// Throws an input error if `max_tokens` exceeds the model's positions.
void require_positions(const model::ModelConfig& config, std::int64_t max_tokens);

/// Returns `options`. Throws an input error if sequences exceed the model's positions, or KV pages the machine's
/// memory.
decoder::DecoderOptions fitting(const model::ModelConfig& config, const decoder::DecoderOptions& options);

}  // namespace qrl::train

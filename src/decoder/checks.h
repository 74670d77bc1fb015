// Owns the checks of options, sampling parameters and requests.
#pragma once

#include <cstdint>

#include "decoder/decoder.h"

namespace qrl::decoder {

void check_options(const DecoderOptions& options, const model::ModelConfig& config);

/// Throws an input error for parameters out of range, an empty request, or tokens outside the vocabulary. Also for a
/// request that never fits max_model_len or the page pool. Stop strings without bytes_of are an internal error.
void check_request(const Request& request, const DecoderOptions& options, const model::ModelConfig& config);

}  // namespace qrl::decoder

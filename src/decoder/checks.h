// Owns the checks of what the decoder is given: options, sampling parameters, requests.
#pragma once

#include <cstdint>

#include "decoder/decoder.h"

namespace qrl::decoder {

/// Throws an input error for an option out of range.
void check_options(const DecoderOptions& options, const model::ModelConfig& config);

/// Throws an input error when a sampling parameter is out of range, or when a request is empty, has tokens outside the
/// vocabulary, or can never fit max_model_len or the page pool. An internal error for stop strings without bytes_of.
void check_request(const Request& request, const DecoderOptions& options, const model::ModelConfig& config);

}  // namespace qrl::decoder

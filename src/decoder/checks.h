// Owns the checks of what the decoder is given: options, sampling parameters, requests.
#pragma once

#include <cstdint>

#include "decoder/decoder.h"

namespace qrl::decoder {

/// Throws an input error for an option out of range.
void check_options(const DecoderOptions& options, const model::ModelConfig& config);

/// Throws an input error for a parameter out of range.
void check_params(const types::SamplingParams& params);

/// Throws an input error when a request is empty, has tokens outside the vocabulary, or can never fit max_model_len or
/// the page pool.
void check_request(const types::SampleRequest& request, std::int32_t max_new_tokens, const DecoderOptions& options,
                   const model::ModelConfig& config);

}  // namespace qrl::decoder

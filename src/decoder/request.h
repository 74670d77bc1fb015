// Owns the decoder's requests and results, as plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"

namespace qrl::decoder {

/// Identifies a request of one decoder: 0, 1, … in the order of submission.
using RequestId = std::int64_t;

/// Samples of one prompt, with everything that determines their tokens. To continue a sample, its first tokens are
/// appended to the prompt, and `first_position` is their number: the remaining tokens are then the same.
struct Request {
  std::uint64_t prompt_id = 0;
  std::vector<types::TokenId> prompt_tokens;
  std::int32_t first_sample = 0;  ///< the samples have indices first_sample … first_sample + num_samples − 1
  std::int32_t num_samples = 1;
  types::SamplingParams params;
  types::SampleKey key;
  std::int32_t first_position = 0;  ///< position of the first new token in the key of its sample, 0 or more
};

/// A request whose samples have all ended.
struct FinishedRequest {
  RequestId id = 0;
  std::vector<types::Completion> completions;  ///< in order of sample indices
};

}  // namespace qrl::decoder

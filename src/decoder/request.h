// Owns what a decoder is given and what it returns. Holds data only.
#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"

namespace qrl::decoder {

/// Names a request of one decoder: 0, 1, … in the order of their submission.
using RequestId = std::int64_t;

/// Samples of one prompt, with everything that decides their tokens. A request with the prompt and the first tokens of
/// another one's sample, `first_position` their number, goes on with that sample's tokens.
struct Request {
  std::uint64_t prompt_id = 0;
  std::vector<types::TokenId> prompt_tokens;
  std::int32_t first_sample = 0;  ///< sample indices first_sample … first_sample + num_samples − 1
  std::int32_t num_samples = 1;
  types::SamplingParams params;
  types::SampleKey key;
  std::int32_t first_position = 0;  ///< of the first new token in the key of its sample, 0 or more
};

/// A request whose samples have all ended.
struct FinishedRequest {
  RequestId id = 0;
  std::vector<types::Completion> completions;  ///< in the order of their sample indices
};

}  // namespace qrl::decoder

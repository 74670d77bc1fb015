#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"

namespace qrl::decoder {

/// Request ids are 0, 1, … in order of submission.
using RequestId = std::int64_t;

/// To resume a partial sample with unchanged results, append its tokens to the prompt and set `first_position` to their
/// number.
struct Request {
  std::uint64_t prompt_id = 0;
  std::vector<types::TokenId> prompt_tokens;
  std::int32_t first_sample = 0;  ///< sample indices are first_sample … first_sample + num_samples − 1
  std::int32_t num_samples = 1;
  types::SamplingParams params;
  types::SampleKey key;
  std::int32_t first_position = 0;  ///< the first new token's position in its sample, 0 or more
  bool by_turns = false;            ///< if set, samples are parked until their first turn and after each turn
};

struct FinishedRequest {
  RequestId id = 0;
  std::vector<types::Completion> completions;  ///< in order of sample indices
};

}  // namespace qrl::decoder

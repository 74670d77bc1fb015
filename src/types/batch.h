// Owns the learner's input: packed sequences with their per-token training data. Knows nothing of tensors or text.
#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"

namespace qrl::types {

/// Several sequences end to end (packed: no padding). Arrays of N = tokens.size() entries except where noted.
/// Position t of a sequence predicts token t+1: entry t of the per-token arrays is about that *next* token, so the last
/// entry of each sequence and every entry that predicts a prompt token has loss_mask 0.
struct MicroBatch {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> sequence_starts;  ///< S+1 offsets into tokens, first 0, last N
  /// Per sequence (S, or empty: all 0): 1 when it continues its prefix, the nearest sequence before it with 0 here, as
  /// if the prefix's tokens stood before its own. So samples of one prompt compute that once; a prefix has no targets.
  std::vector<std::uint8_t> continues_prefix;
  std::vector<TokenId> targets;         ///< tokens[t+1]; 0 where there is none
  std::vector<std::uint8_t> loss_mask;  ///< 1 where the target is a response token that counts
  std::vector<float> sampler_logprobs;  ///< of the target under the sampler; 0 where masked
  std::vector<float> old_logprobs;      ///< of the target under the learner that sampled; empty: taken from this
                                        ///< forward (one update per rollout: old ≡ current)
  std::vector<float> old_entropy;       ///< of the distribution that old_logprobs are of; empty where nothing needs it
  std::vector<float> reference_logprobs;  ///< of the target under the reference model; empty without one
  std::vector<float> teacher_logprobs;    ///< of the target under the teacher; empty without one
  std::vector<float> advantages;  ///< of the sequence, repeated on its tokens; beside a teacher each token's own
  std::vector<std::int64_t> sequence_idx;  ///< per sequence (S): its index in the caller's order; −1: a prefix

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  bool continues(std::int64_t sequence) const {
    return !continues_prefix.empty() && continues_prefix[static_cast<std::size_t>(sequence)] != 0;
  }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

/// Denominators of a whole optimizer mini-batch over all ranks: never of a micro-batch.
struct GlobalCounts {
  std::int64_t response_tokens = 0;  ///< loss_mask sum
  std::int64_t sequences = 0;        ///< sequences with at least one counted token
};

}  // namespace qrl::types

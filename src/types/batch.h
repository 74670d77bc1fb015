#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"
#include "types/routes.h"

namespace qrl::types {

/// The learner's input: sequences, concatenated without padding. Arrays have N = tokens.size() entries except where
/// noted. Entry t of the per-token arrays describes token t+1, which position t predicts. Entries at a sequence's end,
/// and those that predict a prompt token, have loss_mask 0.
struct MicroBatch {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> sequence_starts;  ///< S+1 offsets into tokens, first 0, last N
  /// [S], or empty for all 0: 1 if the sequence continues the last one before it that has a 0. Attention then sees that
  /// prefix first, so that samples compute their prompt once.
  std::vector<std::uint8_t> continues_prefix;
  std::vector<TokenId> targets;         ///< tokens[t+1]; 0 at the end of a sequence
  std::vector<std::uint8_t> loss_mask;  ///< 1: a response token in the loss
  std::vector<float> sampler_logprobs;  ///< of the target; 0 where masked
  /// Log-probs of the target under the learner at rollout time. Empty: this forward pass's (one update per rollout: old
  /// ≡ current).
  std::vector<float> old_logprobs;
  std::vector<float> old_entropy;         ///< of the distribution of old_logprobs; empty if unused
  std::vector<float> reference_logprobs;  ///< of the target; empty without a reference model
  std::vector<float> teacher_logprobs;    ///< of the target; empty without a teacher
  std::vector<float> advantages;          ///< the sequence's, on each of its tokens; with a teacher, per token
  KeptTokens kept;                        ///< the tokens that the target was sampled from; none without top-k and top-p
  /// Routes of all tokens under the sampler; no entries if they are unknown. The last token of a sequence that is no
  /// prefix has experts 0 … k − 1.
  Routes sampler_routes;
  Routes old_routes;  ///< those of the pass that made old_logprobs; no entries unless replayed
  RouteReplay replay = RouteReplay::none;
  std::vector<std::int64_t> sequence_idx;  ///< [S]: index in the caller's order; −1: a prefix

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  bool continues(std::int64_t sequence) const {
    return !continues_prefix.empty() && continues_prefix[static_cast<std::size_t>(sequence)] != 0;
  }
  /// Returns the routes that a forward pass has to use, or null if it chooses.
  const Routes* replayed() const {
    return replay == RouteReplay::none ? nullptr : replay == RouteReplay::sampler ? &sampler_routes : &old_routes;
  }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

/// Denominators of an optimizer mini-batch over all ranks.
struct GlobalCounts {
  std::int64_t response_tokens = 0;  ///< sum of loss_mask
  std::int64_t sequences = 0;        ///< sequences that have a token in the loss
};

}  // namespace qrl::types

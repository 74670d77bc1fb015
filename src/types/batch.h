#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"
#include "types/routes.h"

namespace qrl::types {

/// Holds the learner's input: sequences, concatenated without padding. Arrays have N = tokens.size() entries except
/// where noted. Entry t of `targets` … `kept` describes token t+1, which position t predicts. Entries at a sequence's
/// end, and those that predict a prompt token, have loss_mask 0.
struct MicroBatch {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> sequence_starts;  ///< S+1 offsets into tokens, first 0, last N
  /// [S]: 1 if the sequence continues a prefix and attends to it first. The prefix is the nearest earlier sequence with
  /// 0. Empty: all 0.
  std::vector<std::uint8_t> continues_prefix;
  std::vector<TokenId> targets;         ///< tokens[t+1]; 0 at the end of a sequence
  std::vector<std::uint8_t> loss_mask;  ///< 1: a response token in the loss
  std::vector<float> sampler_logprobs;  ///< log-probs of the targets; 0 where masked
  /// Log-probs of the targets under the learner at rollout time. Empty: uses those of the current forward pass (one
  /// update per rollout: old ≡ current).
  std::vector<float> old_logprobs;
  std::vector<float> old_entropy;         ///< entropy of the distribution of old_logprobs; empty if unused
  std::vector<float> reference_logprobs;  ///< log-probs of the targets; empty without a reference model
  std::vector<float> teacher_logprobs;    ///< log-probs of the targets; empty without a teacher
  std::vector<float> advantages;          ///< each token's advantage; equal within a sequence, except with a teacher
  KeptTokens kept;                        ///< tokens from which the target was sampled; no sets without top-k or top-p
  /// Routes of all tokens under the sampler; no entries if unknown. A completion's last token, which the sampler does
  /// not route, gets experts 0 … k − 1.
  Routes sampler_routes;
  Routes old_routes;  ///< routes of the pass that made old_logprobs; no entries unless replayed
  RouteReplay replay = RouteReplay::none;
  std::vector<std::int64_t> sequence_idx;  ///< [S]: index of the caller's item; −1: a prefix

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  bool continues(std::int64_t sequence) const {
    return !continues_prefix.empty() && continues_prefix[static_cast<std::size_t>(sequence)] != 0;
  }
  /// Returns the routes that a forward pass must use, or null if the router chooses.
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

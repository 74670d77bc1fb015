#pragma once

#include <cstdint>
#include <vector>

#include "types/prompt.h"
#include "types/routes.h"

namespace qrl::types {

/// Holds the learner's input: sequences, concatenated without padding. Arrays have N = tokens.size() entries except
/// where noted. In the members `targets` to `kept`, entry t describes token t+1, which position t predicts. An entry's
/// loss_mask is 0 at a sequence's end and where token t+1 belongs to a prompt.
struct MicroBatch {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> sequence_starts;  ///< S+1 offsets into tokens, first 0, last N
  /// [S]: 1 if the sequence continues a prefix, whose tokens it attends to before its own. The prefix is the nearest
  /// earlier sequence marked 0. An empty array means all 0.
  std::vector<std::uint8_t> continues_prefix;
  std::vector<TokenId> targets;         ///< tokens[t+1]; 0 at the end of a sequence
  std::vector<std::uint8_t> loss_mask;  ///< 1 if the target is a response token in the loss
  std::vector<float> sampler_logprobs;  ///< the sampler's log-probs; 0 for targets that it did not sample
  /// Log-probs of the targets under the learner at rollout time. If empty, the loss reads the current forward pass's
  /// log-probs, which are the same if a rollout has one update.
  std::vector<float> old_logprobs;
  std::vector<float> old_entropy;         ///< entropies from the pass that made old_logprobs; empty if unused
  std::vector<float> reference_logprobs;  ///< log-probs of the targets; empty without a reference model
  std::vector<float> teacher_logprobs;    ///< log-probs of the targets; empty without a teacher
  std::vector<float> advantages;          ///< each token's advantage; equal within a sequence, except with a teacher
  KeptTokens kept;                        ///< tokens from which each target was sampled; empty without top-k or top-p
  /// Experts that the sampler chose for each token; empty if unknown. The sampler does not route a completion's last
  /// token, which gets experts 0 … k − 1.
  Routes sampler_routes;
  Routes old_routes;  ///< routes of the pass that made old_logprobs; empty unless `replay` is old
  RouteReplay replay = RouteReplay::none;
  std::vector<std::int64_t> sequence_idx;  ///< [S]: index of the packed item; −1 for a prefix

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }
  bool continues(std::int64_t sequence) const {
    return !continues_prefix.empty() && continues_prefix[static_cast<std::size_t>(sequence)] != 0;
  }
  const Routes* replayed() const {
    return replay == RouteReplay::none ? nullptr : replay == RouteReplay::sampler ? &sampler_routes : &old_routes;
  }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

/// Holds the loss denominators of an optimizer mini-batch, summed over all ranks.
struct GlobalCounts {
  std::int64_t response_tokens = 0;  ///< sum of loss_mask
  std::int64_t sequences = 0;        ///< sequences that have a token in the loss
};

}  // namespace qrl::types

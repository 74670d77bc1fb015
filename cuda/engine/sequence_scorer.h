// Owns the entry to a decoder's passes over whole sequences, for a learner on the same device and for calibration.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/engine/decode_engine.h"
#include "cuda/engine/weight_store.h"

namespace qrl::cuda {

/// Tokens whose log-probs are wanted, one a row of hidden states.
struct Targets {
  std::span<const std::int32_t> rows, tokens;
  float temperature = 1;  ///< above 0
};
/// NaN where nothing could be sampled.
struct TokenScore {
  float logprob = 0, entropy = 0;
};

/// Passes by the kernels that a tick has: with row_only_sums their bits are those of the ticks that sampled. After an
/// upload only. Each blocks until it is done. What is for a learner begins when the caller's stream has done what it
/// was given, and may be called from any thread, one at a time.
class SequenceScorer {
 public:
  SequenceScorer() = default;
  SequenceScorer(const SequenceScorer&) = delete;
  SequenceScorer& operator=(const SequenceScorer&) = delete;
  virtual ~SequenceScorer() = default;

  /// Runs all positions of some sequences through all layers, in pages [0, num_pages) of its own: one layer's memory,
  /// which stays for the next call. `ticks`, each within a tick's limits, are the sequences' rows in order; a tick's
  /// copies are made when its own keys and values are stored. after_layer[i]: the residual stream after layer i, fp32
  /// [rows of all ticks, width] on the engine's device; all may be one, which then holds that after the last.
  virtual void forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
                       CallersStream stream) = 0;
  /// Log-probs of tokens at x, fp32 [*, width], the residual stream after the last layer (final norm, lm_head and the
  /// samples' own sums), and entropies: log-probs are the bits that a sample gives them, entropies over blocks in fp64.
  virtual void score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) = 0;

  /// Runs a tick whose positions are all that its sequences have, nothing copied, in bf16 pages of its own, which lie
  /// beside what allocate_kv made and are gone after. Gives of each layer's kv heads |keys| and |values| (rounded to
  /// bf16) the least that at most num_above of them are larger than, fp32 [layers, kv heads] each; NaN where one is not
  /// finite. Blocks until it is done. After an upload only.
  virtual void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                              std::span<float> values_LK) = 0;
};

}  // namespace qrl::cuda

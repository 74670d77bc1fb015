// Owns the interface of a decoder's passes over whole sequences, for a learner and for calibration.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/engine/decode_engine.h"
#include "cuda/engine/weight_store.h"

namespace qrl::cuda {

/// Holds tokens to score. tokens[i] is scored with row rows[i] of the hidden states.
struct Targets {
  std::span<const std::int32_t> rows, tokens;
  float temperature = 1;  ///< above 0
  /// Tokens that top-k and top-p kept for each target, ascending, at most kMostKept with the target; empty: all tokens.
  std::span<const std::span<const std::int32_t>> kept = {};
};
/// Both numbers are NaN if no token can be sampled.
struct TokenScore {
  float logprob = 0, entropy = 0;
};

/// Runs passes over whole sequences, with the kernels that ticks use. With row_only_sums, results equal those of
/// sampling ticks bitwise. Weights must be uploaded first. A call that takes a stream first waits for that stream's
/// work. All calls block until done. Any thread may call, one at a time.
class SequenceScorer {
 public:
  SequenceScorer() = default;
  SequenceScorer(const SequenceScorer&) = delete;
  SequenceScorer& operator=(const SequenceScorer&) = delete;
  virtual ~SequenceScorer() = default;

  /// Runs all positions of some sequences through all layers. Only one layer's keys and values exist at a time. They
  /// are in separate pages [0, num_pages), which the next call reuses.
  ///
  /// `ticks`: the sequences' rows in order, each tick within the engine's limits. A tick's copies run after its keys
  /// and values are stored. Writes the residual stream after layer i to after_layer[i], fp32 [rows of all ticks, width]
  /// on the engine's device. Entries of after_layer may point to the same memory.
  virtual void forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
                       CallersStream stream) = 0;
  /// Computes log-probs and entropies of tokens from x, fp32 [*, width], the residual stream after the last layer.
  /// Log-probs equal sampled log-probs bitwise. Entropies are summed in fp64.
  virtual void score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) = 0;

  /// Computes percentiles of keys and values for fp8 scales. The tick must have all positions of its sequences, and
  /// empty `copies`. Its keys and values are in separate bf16 pages, which the call frees.
  ///
  /// Writes to keys_LK, fp32 [layers, kv heads], the smallest number that at most num_above of |keys| exceed, with keys
  /// rounded to bf16. Writes NaN if a key is not finite. Writes the same number for |values| to values_LK.
  virtual void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                              std::span<float> values_LK) = 0;
};

}  // namespace qrl::cuda

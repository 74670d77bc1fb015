#pragma once

#include <optional>

#include "cuda/engine/blocks.h"
#include "cuda/engine/sequence_scorer.h"
#include "cuda/engine/weights.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sample/cut.h"
#include "cuda/sample/sample.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Maximum number of rows per call of LmHead::logits, which serves cuts that the device cannot make.
inline constexpr std::int64_t kWholeRows = 32;

/// Samples tokens, scores tokens or computes logits, in stream order. Sampling and scoring process one vocabulary tile
/// at a time.
class LmHead {
 public:
  /// Allocates memory for up to max_rows samples at once. `weights` and `gemms` must outlive the object.
  LmHead(const EngineOptions& options, std::int64_t max_rows, const Weights& weights, Gemms& gemms);

  /// Allocates memory for ticks with cuts, unless it exists.
  void reserve_cuts(std::int64_t max_rows);
  /// Requires reserve_cuts if a row has cuts.
  void sample(const ResidualRows& rows, const TickArrays& arrays, const Stream& stream);
  const std::int32_t* sampled_tokens() const { return sampled_.as<std::int32_t>(); }
  /// Copies the last `sample` call's num_rows tokens and log-probs to pinned buffer `turn` (0 or 1).
  void send_sampled(std::int64_t num_rows, std::size_t turn, const Stream& stream);
  /// Reads sampled.size() tokens from pinned buffer `turn`. The copy by send_sampled(num_rows, …) must have ended.
  void read(std::int64_t num_rows, std::size_t turn, std::span<SampledToken> sampled) const;
  // Do the same for kept tokens, which read_kept names in pinned memory.
  void send_kept(std::int64_t num_rows, std::size_t turn, const Stream& stream);
  void read_kept(std::int64_t num_rows, std::size_t turn, std::span<SampledToken> sampled) const;

  /// Implements SequenceScorer::score. Callers pass an empty rows.branch. Waits for the stream.
  void score(const ResidualRows& rows, const Targets& targets, std::span<TokenScore> scores, const Stream& stream);

  void logits(const ResidualRows& rows, std::span<const std::int32_t> row_ids, std::span<float> logits_RV,
              const Stream& stream);

 private:
  void final_norm(const ResidualRows& rows, const std::int32_t* row_ids, std::int64_t num_rows, const Stream& stream);
  std::int64_t tile_tokens(std::int64_t num_rows, std::int64_t multiple) const;
  void logit_tile(std::int64_t first_token, std::int64_t num_rows, float* y, std::int64_t y_stride,
                  std::int64_t num_tokens, const Stream& stream);
  /// A tile's logits: num_tokens of the vocabulary from first_token on, in rows of `stride`.
  struct Tile {
    const float* logits;
    std::int64_t stride, first_token, num_tokens;
  };
  struct SummarizedHow {
    const SampleSettings* settings;
    float* block_weighted = nullptr;
    std::int64_t multiple = kSampleBlock;  ///< of which a tile's first token is one
  };
  /// Calls each_tile(Tile) after a tile's summary, in stream order.
  template <class EachTile>
  SummarizedRows summarize(const ResidualRows& rows, const std::int32_t* row_ids, std::int64_t num_rows,
                           const SummarizedHow& how, const Stream& stream, const EachTile& each_tile);
  std::int64_t num_segments() const { return ceil_div(config_.vocab_size, kSegmentTokens); }

  struct Scoring {
    Memory rows, targets, settings, block_weighted, logprobs, entropies;
    Memory num_kept, kept, kept_logits;  // empty before the first targets with kept tokens
  };
  struct Cutting {
    Memory block_sum, candidates;  // of max_step_ rows
    Memory kept;                   // [rows] numbers of kept tokens, then [rows, kMostKept] tokens
    Memory kept_host[2];
  };

  model::ModelConfig config_;
  const Weights& weights_;
  Gemms& gemms_;
  bool row_only_sums_;
  std::int64_t num_blocks_, max_step_;
  QuantizedMemory normed_;
  Memory tile_, block_max_, block_sum_, part_sum_;
  Memory whole_, whole_rows_;
  Memory sampled_host_[2], sampled_;  // tokens, then log-probs
  std::optional<Scoring> scoring_;
  std::optional<Cutting> cutting_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET

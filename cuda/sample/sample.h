#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"
#include "cuda/sample/row_cuts.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

struct SampleSettings {
  float inverse_temperature = 1;
  std::int32_t greedy = 0;  ///< 1: take the likeliest token, at any temperature
};
inline SampleSettings settings_of(float temperature) {
  return temperature == 0 ? SampleSettings{1.0F, 1} : SampleSettings{1.0F / temperature, 0};
}

/// Summarizes the logits of a vocabulary segment, like RowSummary of ops/sample.h. For each block of kSampleBlock
/// tokens, computes the largest logit, Σ exp(z) with z = (logit − largest) / temperature, and optionally Σ exp(z)·z.
/// For each part of kSamplePart tokens, computes Σ exp(z).
inline constexpr std::int64_t kSampleBlock = 256, kSamplePart = 32, kSampleParts = kSampleBlock / kSamplePart;
struct SummarizeTask {
  const float* logits;
  std::int64_t stride, first_token, num_tokens;  ///< first_token: a multiple of kSampleBlock
  const SampleSettings* settings;                ///< [rows]
  std::int64_t num_blocks;                       ///< blocks of the whole vocabulary
  float *block_max, *block_sum;                  ///< [rows, num_blocks]
  float* part_sum;                               ///< [rows, num_blocks, kSampleParts]
  float* block_weighted;                         ///< [rows, num_blocks], Σ exp(z)·z; null: not computed
};
void summarize_logits(const SummarizeTask& task, std::int64_t num_rows, const Stream& stream);

/// Describes rows of summarized logits (SummarizeTask). Kernels read the logits, or recompute them from `hidden` and
/// `head`. Recomputed int8 logits equal the GEMM's bitwise; bf16 logits are summed in another order.
struct SummarizedRows {
  const float *block_max, *block_sum, *part_sum;
  std::int64_t num_blocks, vocab_size;
  const SampleSettings* settings;  ///< [rows]
  const float* logits;             ///< [rows, stride] of the whole vocabulary; null: recomputed
  std::int64_t stride;
  // Operands of recomputed logits: bf16, or int8 with one scale per row of `hidden` and per row of `head`.
  QuantizedRows hidden;  ///< final hidden states
  DeviceMatrix head;     ///< lm_head, one row per token
};

/// Samples one token per row by inverse CDF. The sums of SummarizeTask's blocks select a block, the sums of that
/// block's parts select a part, and the part's logits select the token. Cumulative sums are fp64, in order; those of
/// blocks are computed in 32 groups. Skips rows with cuts (sample/cut.h).
struct SampleTask {
  SummarizedRows rows;
  const double* uniforms;
  std::int32_t* tokens;
  float* logprobs;
  const RowCuts* cuts = nullptr;  ///< [rows]; null: no row has cuts
};
void sample_tokens(const SampleTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes the log-prob of each row's target and the row's entropy. Sums over blocks are fp64. Above temperature 0,
/// log-probs equal those of sample_tokens bitwise. Both results are NaN if no token can be sampled.
struct ScoreTask {
  SummarizedRows rows;
  const float* block_weighted;
  const std::int32_t* targets;
  float *logprobs, *entropies;
};
void score_tokens(const ScoreTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

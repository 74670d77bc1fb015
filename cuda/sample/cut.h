// Owns sampling with top-k and top-p. The results are those of ops/sample.h on the same logits: the same weights,
// totals, kept tokens and sampled tokens.
//
// Reckoned, not measured, for 512 rows of 49,152 logits on an H200: find_candidates has 3,072 blocks of some 16,000
// warp instructions, 53 us; it reads 100 MB twice, mostly from L2. sample_candidates has 512 blocks of some 110
// barriers, 10 us, and of flat rows 6 us more for sums in order.
#pragma once

#include <cstdint>

#include "cuda/runtime/operands.h"
#include "cuda/sample/row_cuts.h"
#include "cuda/sample/sample.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Number of tokens that a thread block searches for a row's candidates, of which it finds kMostKept or all.
inline constexpr std::int64_t kSegmentTokens = 8192;

struct Candidate {
  float logit;
  std::int32_t token;  ///< −1: none
};

/// Finds candidates for the kept tokens of rows with cuts. In each segment of kSegmentTokens tokens of the vocabulary,
/// the likeliest kMostKept are candidates; of equal logits the lower token is likelier. Also computes each block's
/// Σ exp(z) with fp64 sums of the CPU's weights (z as in SummarizeTask). Skips other rows.
struct CandidateTask {
  const float* logits;
  std::int64_t stride, first_token, num_tokens;  ///< as in SummarizeTask; first_token: a multiple of kSegmentTokens
  const SampleSettings* settings;                ///< [rows]
  const RowCuts* cuts;                           ///< [rows]
  std::int64_t num_blocks, num_segments;         ///< of the whole vocabulary
  double* block_sum;                             ///< [rows, num_blocks]
  Candidate* candidates;                         ///< [rows, num_segments, kMostKept]
};
void find_candidates(const CandidateTask& task, std::int64_t num_rows, const Stream& stream);

/// Keeps the likeliest candidates of rows with cuts, as top-k, top-p and max_kept say, and samples one of them by
/// inverse CDF. Cumulative sums are fp64: to find the end of top-p, in descending order of logits; else, in token
/// order. Other rows keep 0 tokens and are not sampled.
struct CutTask {
  const float* block_max;  ///< [rows, num_blocks], of SummarizeTask
  const double* block_sum;
  const Candidate* candidates;
  std::int64_t num_blocks, num_segments, vocab_size;
  const SampleSettings* settings;
  const RowCuts* cuts;
  const double* uniforms;
  std::int32_t* tokens;  ///< −1 if no token can be sampled
  float* logprobs;
  std::int32_t* num_kept;  ///< [rows]; negative, −1 − count: max_kept excluded tokens
  std::int32_t* kept;      ///< [rows, kMostKept], ascending
};
/// Returns the shared memory that sample_candidates needs.
std::int64_t cut_bytes(std::int64_t num_blocks, std::int64_t num_segments);
void sample_candidates(const CutTask& task, std::int64_t num_rows, const Stream& stream);

/// Copies the logits of kept tokens that are in a tile of the vocabulary.
struct KeptLogitsTask {
  const float* logits;
  std::int64_t stride, first_token, num_tokens;
  const std::int32_t *num_kept, *kept;  ///< [rows], [rows, kMostKept]
  float* kept_logits;                   ///< [rows, kMostKept]
};
void gather_kept_logits(const KeptLogitsTask& task, std::int64_t num_rows, const Stream& stream);

/// Computes the log-prob of each row's target among its kept tokens and the entropy of their distribution. Log-probs
/// equal those of sample_candidates bitwise. Both results are NaN if no token can be sampled. A row's target must be
/// one of its kept tokens. Sums are fp64, in token order.
struct ScoreKeptTask {
  const float* block_max;
  const float* block_sum;  ///< of SummarizeTask
  std::int64_t num_blocks;
  const SampleSettings* settings;
  const std::int32_t *num_kept, *kept, *targets;
  const float* kept_logits;
  float *logprobs, *entropies;
};
void score_kept(const ScoreKeptTask& task, std::int64_t num_rows, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qrl::ops {

struct SampleParams {
  float temperature = 1.0F;  ///< 0: argmax (lowest index on ties) with log-prob 0
  float top_p = 1.0F;        ///< (0, 1]
  std::int32_t top_k = -1;   ///< −1: off
  /// If above 0, sampling keeps at most the max_kept likeliest tokens after top-k and top-p. SampledToken::kept lists
  /// them. Has no effect without top-k and top-p.
  std::int32_t max_kept = 0;
  bool cuts() const { return temperature > 0 && (top_k != -1 || top_p < 1.0F); }
};

struct SampledToken {
  std::int32_t token = 0;
  float logprob = 0;                    ///< log-prob after temperature, top-k and top-p, renormalized
  std::vector<std::int32_t> kept = {};  ///< tokens that could be sampled, ascending; empty: all
  bool limited = false;                 ///< whether max_kept excluded tokens
};

/// Logits per block. A block's weights exp(…) are summed in fp32, the blocks' sums in fp64.
inline constexpr std::int64_t kSampleBlock = 256;

/// Chooses the sums of a row's weights: those of kSampleBlock, or all in fp64 in an order that no instruction set
/// changes. A GPU adds the latter in the same order, so that both cut a row at the same token.
enum class SampleSums : std::uint8_t { by_vectors, fixed };

/// Holds each block's largest logit and Σ exp((logit − largest) / temperature), to sample a row without top-k and
/// top-p.
class RowSummary {
 public:
  void begin(float temperature, SampleSums sums = SampleSums::by_vectors);
  /// Adds the row's next logits, fp32. `count`: a multiple of kSampleBlock, except in the last call.
  void take(const float* logits, std::int64_t count);
  /// Ends the row. Calls fail_logits if no logit is finite, or if any logit is NaN or +inf.
  void end();

  /// Describes where a uniform number in [0, 1) falls in the CDF of the row.
  struct Place {
    std::int64_t begin = 0, count = 0;  ///< the block's range of tokens
    double rest = 0;                    ///< mass between the block's start and the number, in units of Block::sum
  };
  Place place(double uniform) const;
  /// Returns the token at `place`; `block_logits`: [place.count] fp32.
  SampledToken sample(const Place& place, const float* block_logits) const;
  /// Returns the log-softmax of a logit of the row, computed in fp64.
  float logprob(float logit) const;
  float max() const { return max_; }
  double total() const { return total_; }  ///< Σ exp((logit − max) / temperature)
  float inverse_temperature() const { return inverse_temperature_; }

 private:
  struct Block {
    float max;
    double sum;
  };
  double share(const Block& block) const;  ///< the block's part of total_

  float inverse_temperature_ = 1, max_ = 0;
  double total_ = 0;
  std::int64_t num_taken_ = 0, best_block_ = 0;
  bool greedy_ = false;
  SampleSums sums_ = SampleSums::by_vectors;
  std::vector<Block> blocks_;
};

/// Samples a token from [V] fp32 logits by inverse CDF with `uniform` in [0, 1). Top-k keeps the k largest logits (ties
/// by lower index). Top-p then keeps the smallest set of likeliest tokens whose total probability reaches p. Throws
/// like RowSummary::end.
SampledToken sample(const float* logits, std::int64_t vocab_size, const SampleParams& params, double uniform);

/// Returns the log-prob that `sample` reports for `token` with this `kept` (ascending; empty: all), bit-identically.
/// Returns −inf for a token not in `kept`. The temperature must be above 0.
float logprob(const float* logits, std::int64_t vocab_size, float temperature, std::int32_t token,
              std::span<const std::int32_t> kept = {});

/// Throws the input error of a model whose logits no token can be sampled from.
[[noreturn]] void fail_logits(const std::string& got);

/// Sets all logits except those of `kept` (ascending) to −inf; no-op if `kept` is empty.
void keep_only(float* logits, std::int64_t vocab_size, std::span<const std::int32_t> kept);

}  // namespace qrl::ops

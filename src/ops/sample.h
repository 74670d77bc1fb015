// Contract of sampling a token from logits. Knows nothing of sequences or models.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qrl::ops {

struct SampleParams {
  float temperature = 1.0F;  ///< 0: arg max (lowest index on ties), log-prob 0
  float top_p = 1.0F;        ///< (0, 1]
  std::int32_t top_k = -1;   ///< −1: off
  /// Limits what top-k and top-p leave to the likeliest max_kept tokens, which SampledToken::kept names; 0: no limit.
  std::int32_t max_kept = 0;
  bool cuts() const { return temperature > 0 && (top_k != -1 || top_p < 1.0F); }  ///< excludes tokens
};

struct SampledToken {
  std::int32_t token = 0;
  float logprob = 0;  ///< of the distribution sampled from: after temperature, top-k and top-p renormalized
  std::vector<std::int32_t> kept = {};  ///< with a cut and max_kept: the tokens of that distribution, ascending
  bool limited = false;                 ///< whether max_kept excluded some of them
};

/// Logits whose weights are summed together, in fp32; over blocks sums are fp64.
inline constexpr std::int64_t kSampleBlock = 256;

/// All that sampling without top-k and top-p needs to know of a row, taken in as its logits are made, so that they need
/// not be kept: each block's largest logit and sum of exp((logit − largest) / temperature). The token is found in two
/// steps: the block by the sums, then the token by that block's logits, which may have been recomputed.
class RowSummary {
 public:
  /// A new row. temperature as in SampleParams.
  void begin(float temperature);
  /// The row's next logits, fp32: a multiple of kSampleBlock except for the last ones.
  void take(const float* logits, std::int64_t count);
  /// After the last logits: an internal error unless one of them was finite and none NaN or +inf.
  void end();

  /// Where the uniform number in [0, 1) falls.
  struct Place {
    std::int64_t begin = 0, count = 0;  ///< the block
    double rest = 0;                    ///< what is left of the CDF inside it, relative to the block's own largest
  };
  Place place(double uniform) const;
  /// Samples from the block's logits.
  SampledToken sample(const Place& place, const float* block_logits) const;
  /// log-softmax of a logit of the row.
  float logprob(float logit) const;
  float max() const { return max_; }
  double total() const { return total_; }  ///< Σ exp((logit − max) / temperature)
  float inverse_temperature() const { return inverse_temperature_; }

 private:
  struct Block {
    float max;
    double sum;
  };
  double share(const Block& block) const;  ///< of total_

  float inverse_temperature_ = 1, max_ = 0;
  double total_ = 0;
  std::int64_t num_taken_ = 0, best_block_ = 0;
  bool greedy_ = false;
  std::vector<Block> blocks_;
};

/// Samples by inverse CDF with `uniform` in [0, 1): fp32 logits, log-softmax by RowSummary. Top-k keeps the k largest
/// (ties by lower index), then top-p the smallest prefix, in descending order, whose mass reaches p. logits: [V] fp32,
/// not changed. Throws an internal error when no logit is finite or one is NaN or +inf (the weights are broken: nothing
/// sampled).
SampledToken sample(const float* logits, std::int64_t vocab_size, const SampleParams& params, double uniform);

/// Finds the log-prob that `sample` would report, bit for bit, had it sampled `token` from `kept` (ascending; empty:
/// all tokens); −inf for a token that is not kept. Errors as for `sample`. The temperature must be above 0.
float logprob(const float* logits, std::int64_t vocab_size, float temperature, std::int32_t token,
              std::span<const std::int32_t> kept = {});

/// Sets all logits but those of `kept` (ascending) to −inf. An empty set changes nothing.
void keep_only(float* logits, std::int64_t vocab_size, std::span<const std::int32_t> kept);

}  // namespace qrl::ops

// Contract of drawing a token from logits. Knows nothing of sequences or models.
#pragma once

#include <cstdint>

namespace qrl::ops {

struct DrawParams {
  float temperature = 1.0F;  ///< 0: arg max (lowest index on ties), log-prob 0
  float top_p = 1.0F;        ///< (0, 1]
  std::int32_t top_k = -1;   ///< −1: off
};

struct Draw {
  std::int32_t token = 0;
  float logprob = 0;  ///< of the distribution drawn from: after temperature, top-k and top-p renormalised
};

/// Draws by inverse CDF with `uniform` in [0, 1): fp32 logits, fp32 log-softmax (sums of exp in a fixed block order,
/// fp32 within blocks and fp64 over them). Top-k keeps the k largest (ties by lower index), then top-p the smallest
/// prefix, in descending order, whose mass reaches p. logits: [V] fp32, not changed. Throws an internal error when no
/// logit is finite or one is NaN or +inf (the weights are broken: nothing sane can be drawn).
Draw draw(const float* logits, std::int64_t vocab_size, const DrawParams& params, double uniform);

/// The log-prob that `draw` would report, bit for bit, had it drawn `token`; −inf for one that it cannot draw. Errors
/// as for `draw`; the temperature must be above 0.
float logprob(const float* logits, std::int64_t vocab_size, const DrawParams& params, std::int32_t token);

/// Sets the logits of tokens that top-k and top-p exclude to −inf, by the rule of `draw` at the same temperature; never
/// `always_kept`'s, which was drawn under logits a little different. Without top-k and top-p, nothing.
void exclude_cut_tokens(float* logits, std::int64_t vocab_size, const DrawParams& params, std::int32_t always_kept);

}  // namespace qrl::ops

// Contracts of the small ops of a transformer's forward and backward pass as training needs them: fused loops over
// packed rows whose plain compositions are in tests/learner. Knows nothing of models or autograd.
//
// Every op splits its rows over base::num_threads() and returns when all are done. Arithmetic and sums are fp32; sums
// over rows (gradients of gains and biases) go by fixed blocks of rows, so that the bits depend on no thread count.
// bf16 arrays are rounded to nearest even when written. Rows are contiguous.
#pragma once

#include <cstdint>

#include "ops/varlen_attention.h"

namespace qrl::ops {

/// sum = x + (y + y_bias); normed = sum · gain / sqrt(mean(sum²) + eps).
struct AddRmsNorm {
  std::int64_t rows = 0, width = 0;
  float eps = 0;
  const float* x = nullptr;
  MixedArray y;                   ///< data null: sum = x, and `sum` is not written
  const float* y_bias = nullptr;  ///< [width], of the product that made y; null: none, or in y already
  const float* gain = nullptr;    ///< [width]
  float* sum = nullptr;
  MixedArray normed;
  float* inverse_rms = nullptr;  ///< [rows], for the backward pass
};
void add_rms_norm(const AddRmsNorm& args);

/// dx = d_sum + ∂normed/∂sum · d_normed; the same again in y's dtype, for the product that made y.
struct AddRmsNormBackward {
  std::int64_t rows = 0, width = 0;
  const float* sum = nullptr;
  const float* gain = nullptr;
  const float* inverse_rms = nullptr;
  MixedArray d_normed;
  const float* d_sum = nullptr;  ///< null: zero
  float* dx = nullptr;
  MixedArray dy;              ///< data null: not wanted
  float* d_gain = nullptr;    ///< [width], added to; null: not wanted
  float* d_y_bias = nullptr;  ///< [width], added to; null: y has no bias, or it is not wanted
};
void add_rms_norm_backward(const AddRmsNormBackward& args);

/// What happens to rows of q, k and v heads between the product that makes them and attention: bias, RMSNorm over E of
/// each q and k head, rotary positions (rotate-half), k and v rounded as the paged cache stores them.
struct QkvTransform {
  std::int64_t rows = 0;
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* bias = nullptr;    ///< [C]; null: none
  const float* q_gain = nullptr;  ///< [E]; null: no norm of q and k
  const float* k_gain = nullptr;
  float eps = 0;
  const float* rope_table = nullptr;        ///< as make_rope_table
  const std::int32_t* positions = nullptr;  ///< [rows]
  bool round_kv_to_bf16 = false;
  MixedArray in;  ///< [rows, C], C = (H+2K)·E
};
/// out [rows, C] fp32; inverse_rms [rows, H+K] (written with norms only).
void qkv_transform(const QkvTransform& args, float* out, float* inverse_rms);

/// d_in [rows, C] from d_out [rows, C] fp32 (rounding to bf16 passes gradients through); d_bias [C] and the gains'
/// gradients [E] are added to, each null when its parameter is or where it is not wanted.
struct QkvGradients {
  const float* d_out = nullptr;
  MixedArray d_in;
  float *d_bias = nullptr, *d_q_gain = nullptr, *d_k_gain = nullptr;
};
void qkv_transform_backward(const QkvTransform& args, const float* inverse_rms, const QkvGradients& gradients);

/// out = silu(gate) · up; halves [rows, 2F], gate first; out [rows, F].
void swiglu(std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray out);
/// d_halves [rows, 2F] from d_out [rows, F], in their own dtypes.
void swiglu_backward(std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray d_out, MixedArray d_halves);

/// Rows of logits as a distribution: log-softmax of logits · inverse_temperature, in fp32.
struct TokenDistribution {
  std::int64_t rows = 0, vocab_size = 0;
  float inverse_temperature = 1;
  const std::int32_t* targets = nullptr;  ///< [rows]
};
/// Log-prob of each target, entropy −Σ p log p, and log Σ exp (of the scaled logits), each [rows].
void token_log_probs(const TokenDistribution& args, const float* logits, float* log_probs, float* entropy, float* lse);
/// d_logits from the gradients of log-prob and entropy. Each of its rows may begin where that of the logits does, whose
/// place it then takes.
struct TokenGradients {
  const float *entropy = nullptr, *lse = nullptr;            ///< as the forward pass gave them
  const float *d_log_probs = nullptr, *d_entropy = nullptr;  ///< [rows]
  MixedArray d_logits;                                       ///< [rows, V]
  std::int64_t d_logits_stride = 0;                          ///< elements from row to row
};
void token_log_probs_backward(const TokenDistribution& args, const float* logits, const TokenGradients& gradients);

/// d_table[tokens[row], :] += d_rows[row, :], in the order of the rows.
void embedding_backward(const std::int32_t* tokens, std::int64_t rows, std::int64_t width, const float* d_rows,
                        float* d_table);

/// Σ x², fp64 over fixed blocks of fp32 lanes; not finite when any element is not (or the squares overflow fp32).
double sum_of_squares(const float* values, std::int64_t count);

/// One AdamW update (Loshchilov & Hutter 2019, algorithm 2, with lr as its schedule multiplier times alpha):
/// g = gradient · gradient_scale; m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²;
/// w = w·(1 − lr·weight_decay) − lr · (m/(1−β₁ᵗ)) / (sqrt(v/(1−β₂ᵗ)) + eps). All fp32.
struct AdamW {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float first_correction = 1, second_correction = 1;  ///< 1/(1−β₁ᵗ), 1/(1−β₂ᵗ)
  float gradient_scale = 1;
};
/// Updates `count` weights with their moments in one pass over memory and zeroes their gradients.
void adamw_step(const AdamW& args, std::int64_t count, float* weights, float* gradients, float* exp_avg,
                float* exp_avg_sq);

}  // namespace qrl::ops

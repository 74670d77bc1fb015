// Contracts of training's small ops: fused loops over packed rows.
//
// Every op splits its contiguous rows over base::num_threads() and returns when all are done. Arithmetic and sums are
// fp32. Sums over rows use fixed blocks, so bits do not depend on the thread count. bf16 outputs are rounded to nearest
// even.
#pragma once

#include <cstdint>

#include "base/gate.h"
#include "ops/varlen_attention.h"

namespace qrl::ops {

/// Computes sum = x + factor · (y + y_bias) and normed = sum · gain / sqrt(mean(sum²) + eps).
struct AddRmsNorm {
  std::int64_t rows = 0, width = 0;
  float eps = 0;
  const float* x = nullptr;
  MixedArray y;                   ///< residual branch; if its data is null, sum is x and `sum` is not written
  const float* y_bias = nullptr;  ///< [width], bias of y; null: none, or already in y
  const float* gain = nullptr;    ///< [width]
  float* sum = nullptr;
  MixedArray normed;
  float* inverse_rms = nullptr;  ///< [rows], for the backward pass
  float factor = 1;              ///< factor of the branch
};
void add_rms_norm(const AddRmsNorm& args);

/// Computes gradients of AddRmsNorm: dx = d_sum + ∂normed/∂sum · d_normed; dy = factor · dx in
/// y's dtype.
struct AddRmsNormBackward {
  std::int64_t rows = 0, width = 0;
  const float* sum = nullptr;
  const float* gain = nullptr;
  const float* inverse_rms = nullptr;
  MixedArray d_normed;
  const float* d_sum = nullptr;  ///< null: zero
  float* dx = nullptr;
  MixedArray dy;              ///< null data: not computed
  float* d_gain = nullptr;    ///< [width], accumulated; null: not computed
  float* d_y_bias = nullptr;  ///< [width], accumulated; null: not computed
  float factor = 1;
};
void add_rms_norm_backward(const AddRmsNormBackward& args);

/// Transforms q, k and v heads before attention. Adds the bias, then applies RMSNorm over E, and rotary
/// positions (rotate-half) in a head's first rotary_dim elements, to q and k. With round_kv_to_bf16, rounds k and v as
/// a bf16 paged cache stores them.
struct QkvTransform {
  std::int64_t rows = 0;
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  const float* bias = nullptr;    ///< [C]; null: none
  const float* q_gain = nullptr;  ///< [E]; null: no norm of q and k
  const float* k_gain = nullptr;
  float eps = 0;
  std::int64_t rotary_dim = 0;
  const float* rope_table = nullptr;        ///< from make_rope_table, [*, rotary_dim]; unused if rotary_dim is 0
  const std::int32_t* positions = nullptr;  ///< [rows]
  bool round_kv_to_bf16 = false;
  MixedArray in;  ///< [rows, C], C = (H+2K)·E
};
/// Writes `out` [rows, C] fp32 and, with norms, inverse_rms [rows, H+K].
void qkv_transform(const QkvTransform& args, float* out, float* inverse_rms);

/// Computes d_in [rows, C] from d_out [rows, C] fp32; gradients pass through the bf16 rounding unchanged. Accumulates
/// d_bias [C] and the gains' gradients [E]; each is null if its parameter is absent.
struct QkvGradients {
  const float* d_out = nullptr;
  MixedArray d_in;
  float *d_bias = nullptr, *d_q_gain = nullptr, *d_k_gain = nullptr;
};
void qkv_transform_backward(const QkvTransform& args, const float* inverse_rms, const QkvGradients& gradients);

/// Computes out = activation(gate) · up. halves: [rows, 2F], gate first; out: [rows, F].
void swiglu(base::Gate activation, std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray out);
/// Computes d_halves [rows, 2F], in the dtype of halves, from d_out [rows, F].
void swiglu_backward(base::Gate activation, std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray d_out,
                     MixedArray d_halves);

/// Describes rows of logits whose distribution is softmax(logits · inverse_temperature), in fp32.
struct TokenDistribution {
  std::int64_t rows = 0, vocab_size = 0;
  float inverse_temperature = 1;
  const std::int32_t* targets = nullptr;  ///< [rows]
};
/// Computes for each row the target's log-prob, the entropy −Σ p log p, and log Σ exp of the scaled logits.
void token_log_probs(const TokenDistribution& args, const float* logits, float* log_probs, float* entropy, float* lse);
/// Computes d_logits, which may share the logits' memory.
struct TokenGradients {
  const float *entropy = nullptr, *lse = nullptr;            ///< results of the forward pass
  const float *d_log_probs = nullptr, *d_entropy = nullptr;  ///< [rows]
  MixedArray d_logits;                                       ///< [rows, V]
  std::int64_t d_logits_stride = 0;                          ///< elements between rows
};
void token_log_probs_backward(const TokenDistribution& args, const float* logits, const TokenGradients& gradients);

/// Adds d_rows[row, :] to d_table[tokens[row], :], in row order.
void embedding_backward(const std::int32_t* tokens, std::int64_t rows, std::int64_t width, const float* d_rows,
                        float* d_table);

/// Returns Σ x²: fp32 sums of fixed segments, added in fp64. The result is not finite if an element is not, or if
/// squares overflow fp32.
double sum_of_squares(const float* values, std::int64_t count);

/// Computes one AdamW update, all in fp32 (Loshchilov & Hutter 2019, algorithm 2, with lr = schedule multiplier ·
/// alpha): g = gradient · gradient_scale; m = β₁m + (1−β₁)g; v = β₂v + (1−β₂)g²; w = w·(1 − lr·weight_decay) − lr ·
/// (m/(1−β₁ᵗ)) / (sqrt(v/(1−β₂ᵗ)) + eps).
struct AdamW {
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float first_correction = 1, second_correction = 1;  ///< 1/(1−β₁ᵗ), 1/(1−β₂ᵗ)
  float gradient_scale = 1;
};
/// Updates `count` weights and their moments in one pass, and zeroes their gradients.
void adamw_step(const AdamW& args, std::int64_t count, float* weights, float* gradients, float* exp_avg,
                float* exp_avg_sq);

}  // namespace qrl::ops

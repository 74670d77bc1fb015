// Gates of attention's output: context · σ(gate), as Qwen3.5 has them. A row of projections has each head's q, then its
// gate; the k heads and v heads follow. The training forms split rows over base::num_threads().
#pragma once

#include <cstdint>

#include "base/threads.h"
#include "ops/varlen_attention.h"

namespace qrl::ops {

struct GatedHeads {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;  ///< H, K, E

  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t qkv_width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  std::int64_t row_width() const { return qkv_width() + q_width(); }
};

/// Copies rows of projections, fp32 [*, row_width()], to qkv [*, qkv_width()] and gates [*, q_width()]. SPMD
/// (ops/linear.h).
void split_gates(base::Team& team, const GatedHeads& heads, base::Range rows, const float* projections, float* qkv,
                 float* gates);
/// Multiplies context, fp32 [*, q_width()], by σ(gates) in place. SPMD.
void apply_gates(base::Team& team, const GatedHeads& heads, base::Range rows, const float* gates, float* context);

/// Does the same as split_gates with arrays of one dtype.
void split_gates(const GatedHeads& heads, std::int64_t rows, MixedArray projections, MixedArray qkv, MixedArray gates);
/// Computes split_gates' gradient: copies d_qkv and d_gates to d_projections. All have one dtype.
void join_gates(const GatedHeads& heads, std::int64_t rows, MixedArray d_qkv, MixedArray d_gates,
                MixedArray d_projections);

/// Computes out = context · σ(gates) in fp32, with apply_gates' bits if all are fp32. `out` has context's dtype and may
/// be context.
void apply_gates(std::int64_t rows, std::int64_t width, MixedArray gates, MixedArray context, MixedArray out);
/// Computes d_context and d_gates, in the dtypes of context and gates, from d_out in context's dtype. d_context may be
/// d_out.
void apply_gates_backward(std::int64_t rows, std::int64_t width, MixedArray gates, MixedArray context, MixedArray d_out,
                          MixedArray d_context, MixedArray d_gates);

}  // namespace qrl::ops

// Owns the differentiable operations of a transformer on packed rows: each runs our fused loops or one matrix product,
// and adds its weights' gradients straight into their fp32 accumulators. Knows no model.
#pragma once

#include <cstdint>
#include <vector>

#include "learner/autograd.h"
#include "ops/varlen_attention.h"

namespace qrl::learner {

/// A weight as the forward pass reads it, and where its gradient accumulates. Matrices are in the compute dtype (bf16
/// copies of the masters, or the fp32 masters), gains and biases fp32 masters.
struct Weight {
  Tensor value;
  Tensor gradient;  ///< fp32, same shape
  bool defined() const { return value.defined(); }
};

/// The shape of a micro-batch, shared by every operation on it.
struct PackedRows {
  std::vector<std::int32_t> tokens;            ///< N
  std::vector<std::int32_t> positions;         ///< N, within the sequence, its prefix included
  std::vector<std::int32_t> sequence_starts;   ///< S+1
  std::vector<std::uint8_t> continues_prefix;  ///< S or empty, as types::MicroBatch has it
  const float* rope_table = nullptr;           ///< ops::make_rope_table for every position here
  std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

struct Heads {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  float norm_eps = 0;  ///< of the norm of q and k
};

/// Rows of `values_VD` (the table's own or a snapshot's, fp32 or bf16), fp32 [N, D]; the gradient goes to `table_VD`.
/// The result starts the graph: it always needs a gradient when autograd is on. `rows` must outlive the backward pass.
Tensor embed(const PackedRows& rows, const Weight& table_VD, const Tensor& values_VD);

/// x · Wᵀ in W's dtype (products of bf16 accumulate in fp32 and are rounded to bf16 once). x: [N, in], W: [out, in].
Tensor linear(const Tensor& x, const Weight& weight);

/// The residual stream after a branch, and its normed form.
struct Normed {
  Tensor sum_ND;     ///< x + branch, fp32
  Tensor normed_ND;  ///< RMSNorm(sum) · gain, in the compute dtype
};
/// branch may be undefined (then sum is x itself). x fp32.
Normed add_rms_norm(const Tensor& x_ND, const Tensor& branch_ND, const Weight& gain, float eps,
                    torch::ScalarType compute);

/// What turns rows of q, k, v heads into what attention reads. Undefined weights are absent from the model.
struct QkvWeights {
  Weight bias, q_gain, k_gain;
};
/// Bias, norm of q and k, rotary positions; fp32 [N, C]. With bf16 input k and v are rounded to bf16, as the decoder's
/// pages hold them. `bias_is_in` says that the product has added the bias already: then only its gradient is left to
/// do. `rows` must outlive the backward pass.
Tensor qkv_transform(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, const QkvWeights& weights,
                     bool bias_is_in);

/// Causal attention within each sequence; [N, H·E] in the compute dtype. `rows` must outlive the backward pass.
Tensor attention(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, torch::ScalarType compute);

/// What the attention ops of ops/varlen_attention.h take; points into both.
ops::VarlenAttention attention_args(const PackedRows& rows, const Heads& heads, const Tensor& qkv_NC);

/// silu(gate) · up of [N, 2F] (gate first), in its dtype.
Tensor swiglu(const Tensor& gate_up_N2F);

/// gradient += d_yᵀ · x, in fp32 (of a product in the operands' dtype).
void accumulate_weight_gradient(const Tensor& d_y, const Tensor& x, const Tensor& gradient);

}  // namespace qrl::learner

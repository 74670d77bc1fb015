// Owns the differentiable operations of a transformer on packed rows. Each runs our fused loops or one matmul, and adds
// its weights' gradients straight into their fp32 accumulators. Values that are cheap to recompute are not kept for the
// backward pass. Knows no model.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "learner/autograd.h"
#include "ops/varlen_attention.h"

namespace qrl::learner {

/// Holds the shape of a micro-batch, shared by every operation on it.
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

/// Computes a result once more, with the same bits, from what is kept anyway. Called at most once, before what it reads
/// is given up.
using Recompute = std::function<Tensor()>;
/// Holds a result that its consumer need not keep for its backward pass.
struct Recomputable {
  Tensor value;
  Recompute recompute;
};

/// Rows of `values_VD` (the table's own or a snapshot's, fp32 or bf16) rounded to `compute`, as fp32 [N, D]; the
/// gradient goes to `table_VD`. The result starts the graph: it always needs a gradient when autograd is on. `rows`
/// must outlive the backward pass.
Tensor embed(const PackedRows& rows, const Weight& table_VD, const Tensor& values_VD, torch::ScalarType compute);

/// Computes x · Wᵀ in x's dtype, bf16 or fp32. x: [N, in], W: [out, in]. The product and its gradients are
/// ops/matmul.h's: bf16 operands are multiplied exactly and added in fp32. y and dX = dY·W are rounded to bf16 once; dW
/// = dYᵀ·X is added to the fp32 gradient without rounding. `recompute_x` replaces x in the backward pass.
Tensor linear(const Tensor& x, const Weight& weight, Recompute recompute_x = {}, bool is_read = true);

/// Holds the residual stream after a branch, and its normed form.
struct Normed {
  Tensor sum_ND;     ///< x + branch and its bias, fp32
  Tensor normed_ND;  ///< RMSNorm(sum) · gain, in the compute dtype
  Recompute recompute_normed;
};
/// Holds the term that a norm adds to the residual stream before it. Nothing is added if `value_ND` is undefined (then
/// sum is x itself).
struct Branch {
  Tensor value_ND;
  Weight bias{};            ///< of the matmul that made it; undefined in models without
  bool bias_is_in = false;  ///< as qkv_transform has it
};
/// x fp32.
Normed add_rms_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, float eps, torch::ScalarType compute);

/// Holds the weights that turn rows of q, k, v heads into attention's inputs. Undefined weights are absent from the
/// model.
struct QkvWeights {
  Weight bias, q_gain, k_gain;
};
/// Applies bias, norm of q and k, and rotary positions; fp32 [N, C]. With bf16 input k and v are rounded to bf16, like
/// in the decoder's pages. `bias_is_in` says that the matmul has already added the bias; only its gradient remains.
/// `rows` must outlive the backward pass.
Recomputable qkv_transform(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, const QkvWeights& weights,
                           bool bias_is_in);

/// Selects bf16 or fp32 for operands of attention's matmuls, forward and backward, and for the result.
struct AttentionTypes {
  torch::ScalarType matmuls = torch::kBFloat16, out = torch::kBFloat16;
};

/// Computes causal attention within each sequence; [N, H·E]. `rows` must outlive the backward pass.
Tensor attention(const Recomputable& qkv_NC, const PackedRows& rows, const Heads& heads, const AttentionTypes& types);

/// Returns the arguments of the attention ops of ops/varlen_attention.h. They point into both.
ops::VarlenAttention attention_args(const PackedRows& rows, const Heads& heads, const Tensor& qkv_NC,
                                    torch::ScalarType matmuls);

/// Computes silu(gate) · up of [N, 2F] (gate first), in its dtype. The backward pass overwrites halves_N2F, which must
/// not be read after it.
Recomputable swiglu(const Tensor& halves_N2F);

/// Holds left · right of few inner columns, [N, r] and [r, columns], which is added in the sums of another product.
struct LowRankProduct {
  Tensor left, right;  ///< in the dtype of the matmul; undefined: nothing
};
/// Computes x · weightᵀ and d_y · weight like `linear`, rounded to `out` once. x and d_y are in the dtype of the
/// matmul; weight may have any.
Tensor times_transposed(const Tensor& x, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
Tensor times(const Tensor& d_y, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
/// Adds d_yᵀ · x to the gradient, fp32; d_y in the dtype of the matmul, x of any. Does nothing without a gradient.
void accumulate_weight_gradient(const Tensor& d_y, const Tensor& x, const Tensor& gradient);

}  // namespace qrl::learner

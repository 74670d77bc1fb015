// Owns the differentiable operations of a transformer on packed rows on the CPU. Weights' gradients are added to fp32
// accumulators. Values that are cheap to recompute are not kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "learner/tensors/autograd.h"
#include "ops/varlen_attention.h"

namespace qrl::learner {

/// Holds the experts of rows in each sparse layer, [N, S, k], ascending in a row's layer.
struct RowRoutes {
  std::int64_t num_layers = 0;       ///< S
  std::int64_t per_token = 0;        ///< k
  std::vector<std::uint8_t> given;   ///< choices that the forward pass uses; empty: its own
  std::vector<std::uint8_t> own;     ///< the router's choice
  std::vector<std::uint8_t> chosen;  ///< [S], 1 once a pass has set a layer's `own`, which recomputations then use

  std::vector<std::uint8_t>& used() { return given.empty() ? own : given; }
  /// Returns the first entry of a row's layer.
  std::int64_t at(std::int64_t row, std::int64_t layer) const { return (row * num_layers + layer) * per_token; }
};

/// A micro-batch's tokens and sequences, concatenated.
struct PackedRows {
  std::vector<std::int32_t> tokens;            ///< N
  std::vector<std::int32_t> positions;         ///< [N], within the sequence, counting its prefix
  std::vector<std::int32_t> sequence_starts;   ///< S+1
  std::vector<std::uint8_t> continues_prefix;  ///< [S] or empty, as in types::MicroBatch
  const float* rope_table = nullptr;           ///< from ops::make_rope_table, for every position of the batch
  std::shared_ptr<RowRoutes> routes;           ///< of a mixture; a forward pass writes them
  std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

struct Heads {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  float norm_eps = 0;  ///< of the norms of q and k
};

/// Recomputes a result bitwise from kept values. Called at most once, before the values are freed.
using Recompute = std::function<Tensor()>;
/// A result that its consumer need not keep.
struct Recomputable {
  Tensor value;
  Recompute recompute;
};

/// Gathers rows of `values_VD` (the table, or a snapshot's in fp32 or bf16), rounded to `compute`, as fp32 [N, D]. The
/// gradient goes to `table_VD`. The result starts the graph. `rows` must outlive the backward pass.
Tensor embed(const PackedRows& rows, const Weight& table_VD, const Tensor& values_VD, torch::ScalarType compute);

/// Computes x · Wᵀ in x's dtype, bf16 or fp32. x: [N, in], W: [out, in]. Uses ops/matmul.h: exact products of bf16
/// operands, fp32 sums. y and dX = dY·W are rounded to bf16 once; dW = dYᵀ·X is added to the fp32 gradient without
/// rounding. `recompute_x` provides x to the backward pass.
Tensor linear(const Tensor& x, const Weight& weight, Recompute recompute_x = {}, bool needs_output = true);

/// The residual stream after adding a branch, and its RMSNorm.
struct Normed {
  Tensor sum_ND;     ///< x + branch and its bias, fp32
  Tensor normed_ND;  ///< RMSNorm(sum) · gain, in the compute dtype
  Recompute recompute_normed;
};
/// Describes the term that a norm first adds to the residual stream; none if `value_ND` is undefined.
struct Branch {
  Tensor value_ND;
  Weight bias{};            ///< bias of the branch's matmul; undefined: none
  bool bias_is_in = false;  ///< whether value_ND already includes the bias (qkv_transform)
};
Normed add_rms_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, float eps, torch::ScalarType compute);

/// The parameters of attention's inputs; undefined if the model lacks one.
struct QkvWeights {
  Weight bias, q_gain, k_gain;
};
/// Applies bias, norm of q and k, and rotary positions; fp32 [N, C]. For bf16 input, rounds k and v to bf16, like the
/// decoder's pages. With `bias_is_in`, the matmul has added the bias, and only its gradient is computed. `rows` must
/// outlive the backward pass.
Recomputable qkv_transform(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, const QkvWeights& weights,
                           bool bias_is_in);

/// The dtypes, bf16 or fp32, of attention's matmul operands and of its result.
struct AttentionTypes {
  torch::ScalarType matmuls = torch::kBFloat16, out = torch::kBFloat16;
};

/// Computes causal attention within each sequence; [N, H·E]. `rows` must outlive the backward pass.
Tensor attention(const Recomputable& qkv_NC, const PackedRows& rows, const Heads& heads, const AttentionTypes& types);

/// Returns arguments for ops/varlen_attention.h that point into rows and qkv_NC.
ops::VarlenAttention attention_args(const PackedRows& rows, const Heads& heads, const Tensor& qkv_NC,
                                    torch::ScalarType matmuls);

/// Computes silu(gate) · up of [N, 2F] (gate first), in its dtype. The backward pass overwrites halves_N2F.
Recomputable swiglu(const Tensor& halves_N2F);

/// Holds a product left [N, r] · right [r, columns], whose terms continue the sums of another product.
struct LowRankProduct {
  Tensor left, right;  ///< in the matmul's dtype; undefined: no product
};
/// Computes x · weightᵀ and d_y · weight like `linear`, rounded to `out` once. x and d_y are in the matmul's dtype;
/// weight may have any dtype.
Tensor times_transposed(const Tensor& x, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
Tensor times(const Tensor& d_y, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
/// Adds d_yᵀ · x to the fp32 gradient, unless undefined. d_y is in the matmul's dtype; x may have any dtype.
void accumulate_weight_gradient(const Tensor& d_y, const Tensor& x, const Tensor& gradient);

}  // namespace qrl::learner

#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/gate.h"
#include "learner/tensors/autograd.h"
#include "model/config.h"
#include "ops/varlen_attention.h"

namespace qrl::learner {

/// Return a contiguous tensor's numbers, bf16 or fp32; null for an undefined tensor.
inline ops::MixedArray mixed(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
  return {tensor.data_ptr(), tensor.scalar_type() == torch::kBFloat16};
}
inline float* floats(const Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

/// Holds each row's experts in each sparse layer, [N, S, k], ascending within a row and layer.
struct RowRoutes {
  std::int64_t num_layers = 0;       ///< S
  std::int64_t per_token = 0;        ///< k
  std::vector<std::uint8_t> given;   ///< replayed experts; empty: `own` is used
  std::vector<std::uint8_t> own;     ///< the router's choices
  std::vector<std::uint8_t> chosen;  ///< [S], 1 once a pass has set a layer's `own`; recomputations then reuse it

  std::vector<std::uint8_t>& used() { return given.empty() ? own : given; }
  std::int64_t at(std::int64_t row, std::int64_t layer) const { return (row * num_layers + layer) * per_token; }
};

/// Holds a micro-batch's sequences, concatenated to N rows.
struct PackedRows {
  std::vector<std::int32_t> tokens;            ///< [N]
  std::vector<std::int32_t> positions;         ///< [N], position in the sequence, prefix included
  std::vector<std::int32_t> sequence_starts;   ///< [S+1], first row of each sequence, then N
  std::vector<std::uint8_t> continues_prefix;  ///< [S] or empty, as in types::MicroBatch
  const float* rope_table = nullptr;           ///< model::RopeTables, with all positions of the batch
  const float* sliding_rope_table = nullptr;   ///< that of RopeKind::sliding; null: none
  std::shared_ptr<RowRoutes> routes;           ///< null without experts; written by a forward pass
  std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(sequence_starts.size()) - 1; }
};

struct Heads {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  float norm_eps = 0;
  bool norms_whole = false;      ///< whether q and k are normalized over all heads of a row together
  std::int64_t rotary_dim = -1;  ///< columns of the rope table; −1: head_dim
  float score_scale = 0;         ///< factor of the scores; 0: 1/√E
  std::int64_t window = 0;       ///< maximum rows that a row attends to; 0: no limit

  /// Returns how many elements of a head turn in a layer with these weights.
  std::int64_t table_width() const { return rotary_dim < 0 ? head_dim : rotary_dim; }
  /// Returns 1 / the factor of the scores.
  double score_divisor() const {
    return score_scale > 0 ? 1 / static_cast<double>(score_scale) : std::sqrt(static_cast<double>(head_dim));
  }
};

/// Recomputes a result bitwise from kept values. Called at most once, before the values are freed.
using Recompute = std::function<Tensor()>;
/// If `recompute` is set, consumers need not keep `value` for the backward pass.
struct Recomputable {
  Tensor value;
  Recompute recompute;
};

/// Gathers the tokens' rows of values_VD, rounded to `compute`, as fp32 [N, D]. values_VD is the table, or a snapshot's
/// embedding in fp32 or bf16. The gradient is added to table_VD.gradient. `rows` must outlive the backward pass.
Tensor embed(const PackedRows& rows, const Weight& table_VD, const Tensor& values_VD, torch::ScalarType compute);

/// Computes x · Wᵀ in x's dtype, bf16 or fp32. x: [N, in], W: [out, in]. Uses ops/matmul.h: exact products of bf16
/// operands, fp32 sums. y and dX = dY·W are rounded once to x's dtype. dW = dYᵀ·X is added to the fp32 gradient without
/// rounding. `recompute_x` provides x to the backward pass; empty: x is kept.
Tensor linear(const Tensor& x, const Weight& weight, Recompute recompute_x = {}, bool needs_output = true);

struct Normed {
  Tensor sum_ND;     ///< x + factor · (branch + bias), fp32
  Tensor normed_ND;  ///< RMSNorm(sum) · gain, in the requested dtype
  Recompute recompute_normed;
};
/// Describes a residual branch, which a norm adds to the residual stream. Undefined value_ND: no branch.
struct Branch {
  Tensor value_ND;
  Weight bias{};            ///< bias of the branch's matmul; undefined: none
  bool bias_is_in = false;  ///< whether value_ND already includes the bias
  float factor = 1;         ///< factor of value and bias
};
/// Without a gain, normed_ND is the sum in dtype `compute`.
Normed add_rms_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, float eps, torch::ScalarType compute);

/// A weight that the model lacks is undefined.
struct QkvWeights {
  Weight bias, q_gain, k_gain;
  model::RopeKind rope = model::RopeKind::common;
  std::int64_t window = 0;  ///< Heads::window of the layer
  bool gated = false;       ///< whether each head's q is followed by a gate of its output
};
/// Normalizes q and k over all heads of a row together, in qkv_NC's dtype. The bias, if any, must be in qkv_NC.
Tensor normed_projections(const Tensor& qkv_NC, const Heads& heads, const QkvWeights& weights);
/// Adds the bias, normalizes q and k, and applies RoPE to both. Returns fp32 [N, C]. For bf16 input, rounds k and v to
/// bf16, like the decoder's pages. With `bias_is_in`, qkv_NC already includes the bias, whose gradient is still
/// computed. `rows` must outlive the backward pass.
Recomputable qkv_transform(const Tensor& qkv_NC, const PackedRows& rows, const Heads& heads, const QkvWeights& weights,
                           bool bias_is_in);

struct AttentionTypes {
  torch::ScalarType matmuls = torch::kBFloat16, out = torch::kBFloat16;
};

/// Computes causal attention within each sequence; [N, H·E]. `rows` must outlive the backward pass.
Tensor attention(const Recomputable& qkv_NC, const PackedRows& rows, const Heads& heads, const AttentionTypes& types);

/// Returns arguments for ops/varlen_attention.h that point into rows and qkv_NC.
ops::VarlenAttention attention_args(const PackedRows& rows, const Heads& heads, const Tensor& qkv_NC,
                                    torch::ScalarType matmuls);

/// Computes activation(gate) · up of halves_N2F (gate first), in its dtype. The backward pass overwrites halves_N2F.
Recomputable swiglu(const Tensor& halves_N2F, base::Gate activation = base::Gate::silu);

/// Describes a product left [N, r] · right [r, columns]. It is added to another product in the same fp32 sums.
struct LowRankProduct {
  Tensor left, right;  ///< operands in the matmul's dtype; undefined: no product
};
/// The first function returns x · weightᵀ plus `more`, the second d_y · weight plus `more`. Both sum like `linear`, and
/// round once to dtype `out`. x and d_y are in the matmul's dtype; weight is bf16 or fp32.
Tensor times_transposed(const Tensor& x, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
Tensor times(const Tensor& d_y, const Tensor& weight, torch::ScalarType out, const LowRankProduct& more = {});
/// Adds d_yᵀ · x to the fp32 gradient; no-op if `gradient` is undefined. d_y is in the matmul's dtype; x is bf16 or
/// fp32.
void accumulate_weight_gradient(const Tensor& d_y, const Tensor& x, const Tensor& gradient);

}  // namespace qrl::learner

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "learner/forward/forward_ops.h"
#include "learner/forward/layers.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "ops/experts.h"
#include "quant/kv_format.h"

namespace qrl::learner {

/// Computes y = x·Wᵀ + scale·B·(A·x), a frozen layer plus its low-rank adapter, with fp32 sums. If the layer reads a
/// snapshot, y is fp32; with low_bit, y equals the decoder's bitwise (model::multiply_adapted). Otherwise, A, scale·B,
/// A·x and y are rounded to x's dtype. Unless needs_output, y is uninitialized.
///
/// Gradients pass straight through the rounding. The backward pass's matmuls have operands in `compute` and fp32 sums.
/// dB = scale·dYᵀ·(A·x). U = dY·(scale·B) is rounded to `compute`; then dA = Uᵀ·x, and U·A is added to the base's dX.
Tensor adapted_linear(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics,
                      bool needs_output = true);

struct EnteredExperts {
  std::shared_ptr<const ops::ExpertRows> routes;
  Tensor gates_NK;  ///< fp32, differentiable
  Tensor x_ND;      ///< x, for rows_of without autograd
  TensorList rows;  ///< each expert's rows of x, differentiable, in x's dtype; empty without autograd

  /// `expert` must have rows.
  Tensor rows_of(std::int64_t expert) const;
};

/// Routes rows of x and gathers them by expert. Router logits are fp32 sums. If the router's weights come from a
/// snapshot, the sampler's op computes the logits. Rows use the replayed routes in all.given. If all.given is empty,
/// they use the router's choices. A layer's first pass writes the router's choices to all.own. A row's dX is summed in
/// fp32: the router's term, then its experts' terms by ascending index.
EnteredExperts enter_experts(const ops::Router& router, const LayerWeights& layer, const Recomputable& x,
                             const ForwardNumerics& numerics, RowRoutes& all);

/// Computes silu(gate) · up of an expert's rows.
using GatedRows = std::function<Recomputable(std::int64_t expert)>;

/// Computes Σ gate · down(gated) over each row's experts by ascending index, fp32 [N, D]. Unless needs_output, the sums
/// are not computed. Calls `gated` only for experts with rows. Without autograd, only one expert's values exist at a
/// time. A gate's gradient is ⟨dY·Ŵ, X̂⟩ in fp32, where X̂ is the input of `down`. In this product, dY is not
/// multiplied by the gate.
Tensor leave_experts(const LayerWeights& layer, const EnteredExperts& entered, const GatedRows& gated,
                     const ForwardNumerics& numerics, bool needs_output);

/// Holds the KV page tables of a micro-batch's sequences, the same for every layer. A sequence that continues a prefix
/// shares the prefix's full pages and copies its partial last page.
struct PageLayout {
  explicit PageLayout(const PackedRows& rows);
  PageLayout(const PageLayout&) = delete;  // table_of_row_N points into `tables`
  PageLayout& operator=(const PageLayout&) = delete;

  struct Copy {
    std::int32_t from, to;
    std::int64_t num_slots;
  };
  static constexpr std::int64_t kPageSize = 16;
  std::int64_t num_pages = 0;
  std::vector<std::vector<std::int32_t>> tables;
  std::vector<const std::int32_t*> table_of_row_N;
  std::vector<Copy> copies;  ///< slots to copy after rows are stored, before pages are read
};

/// Computes causal attention as the sampler does (ops/paged_attention.h), fp32 [N, H·E]. qkv_NC is fp32, from
/// qkv_transform. Rounds keys and values in qkv_NC to `format` (not fp8_e4m3). Gradients pass straight through this
/// rounding. The backward pass rounds matmul operands to `backward`. `rows` and `layout` must outlive the backward
/// pass.
Tensor sampled_attention(const Tensor& qkv_NC, const PackedRows& rows, const PageLayout& layout, const Heads& heads,
                         quant::KvFormat format, torch::ScalarType backward);

/// Implements Ops on the CPU with the fused loops of src/ops. With `bitwise`, attention is sampled_attention. Linear
/// layers that read a snapshot add their bias themselves.
class FusedOps final : public Ops {
 public:
  /// With fake_quant or low_bit, `snapshot` provides the embedding; otherwise it may be null. `rows` and `snapshot`
  /// must outlive the backward pass.
  FusedOps(const PackedRows& rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
           const model::Snapshot* snapshot = nullptr);

  bool recomputes_norms() const override { return true; }
  Tensor embed(const Weight& table_VD) const override;
  Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const override;
  Tensor linear(const Linear& linear, const Recomputable& x, bool needs_output) const override;
  Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const override;
  Tensor delta_net(const Tensor& projections_NC, const Tensor& gates_N2H, const DeltaWeights& weights) const override;
  Recomputable swiglu(const Tensor& halves_N2F) const override;
  /// Fuses only with low_bit and autograd off.
  Tensor fused_mlp(const Linear& first, const Linear& second, const Tensor& x) const override;
  Tensor mlp_of_experts(const LayerWeights& layer, const Recomputable& x, bool needs_output) const override;

 private:
  const PackedRows& rows_;
  Heads heads_;
  float embedding_multiplier_, residual_multiplier_;
  base::Gate gate_;
  ops::DeltaShape delta_;
  ops::Router router_;
  const model::Snapshot* snapshot_;
  std::optional<PageLayout> pages_;  // set with `bitwise`
};

}  // namespace qrl::learner

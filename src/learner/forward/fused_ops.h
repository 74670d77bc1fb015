#pragma once

#include <optional>

#include "learner/forward/forward_ops.h"
#include "learner/forward/sampled_attention.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "ops/experts.h"

namespace qrl::learner {

/// Implements Ops on the CPU by the fused loops of src/ops, or with `bitwise` by the decoder's. Linear layers that read
/// a snapshot add their own bias.
class FusedOps final : public Ops {
 public:
  /// `snapshot` provides the embedding of fake_quant and low_bit; otherwise it may be null. `rows` and `snapshot` must
  /// outlive the backward pass.
  FusedOps(const PackedRows& rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
           const model::Snapshot* snapshot = nullptr);

  bool recomputes_norms() const override { return true; }
  Tensor embed(const Weight& table_VD) const override;
  Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const override;
  Tensor linear(const Linear& linear, const Recomputable& x, bool is_read) const override;
  Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const override;
  Recomputable swiglu(const Tensor& halves_N2F) const override;
  /// Fuses with low_bit, without an adapter or a backward pass that needs intermediate values.
  Tensor fused_mlp(const Linear& first, const Linear& second, const Tensor& x) const override;
  Tensor mlp_of_experts(const LayerWeights& layer, const Recomputable& x, bool is_read) const override;

 private:
  const PackedRows& rows_;
  Heads heads_;
  ops::Router router_;
  const model::Snapshot* snapshot_;
  std::optional<PageLayout> pages_;  // with `bitwise`
};

}  // namespace qrl::learner

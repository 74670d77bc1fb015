// Owns the operations of a forward pass out of the fused loops of src/ops: what the CPU runs. With `bitwise` they are
// the decoder's own. Knows no order of operations.
#pragma once

#include <optional>

#include "learner/forward_ops.h"
#include "learner/sampled_attention.h"
#include "model/config.h"
#include "model/snapshot.h"

namespace qrl::learner {

/// Implements the operations with the loops of src/ops. Linear layers add their own bias if they read a snapshot, like
/// the decoder's.
class FusedOps final : public Ops {
 public:
  /// `snapshot` has the embedding of fake_quant and low_bit; else it may be null. `rows` and `snapshot` must outlive
  /// the backward pass.
  FusedOps(const PackedRows& rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
           const model::Snapshot* snapshot = nullptr);

  bool recomputes_norms() const override { return true; }
  Tensor embed(const Weight& table_VD) const override;
  Normed add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const override;
  Tensor linear(const Linear& linear, const Recomputable& x, bool is_read) const override;
  Tensor attention(const Tensor& qkv_NC, const QkvWeights& weights) const override;
  Recomputable swiglu(const Tensor& halves_N2F) const override;
  /// With low_bit, without adapters and without a backward pass that would need what lies between.
  Tensor fused_mlp(const Linear& first, const Linear& second, const Tensor& x) const override;

 private:
  const PackedRows& rows_;
  Heads heads_;
  const model::Snapshot* snapshot_;
  std::optional<PageLayout> pages_;  // with `bitwise`
};

}  // namespace qrl::learner

#include "learner/forward/fused_ops.h"

#include "learner/forward/adapter.h"
#include "learner/forward/experts.h"
#include "learner/forward/quantized.h"

namespace qrl::learner {

FusedOps::FusedOps(const PackedRows& rows, const model::ModelConfig& config, const ForwardNumerics& numerics,
                   const model::Snapshot* snapshot)
    : Ops(numerics), rows_(rows), heads_(heads_of(config)), router_(model::router_of(config)), snapshot_(snapshot) {
  if (numerics.bitwise) pages_.emplace(rows);
}

Tensor FusedOps::embed(const Weight& table_VD) const {
  if (!numerics().quantized()) return learner::embed(rows_, table_VD, table_VD.value, numerics().compute);
  const Tensor sampled_VD = snapshot_embedding(*snapshot_);
  return learner::embed(rows_, table_VD, sampled_VD, sampled_VD.scalar_type());
}

Normed FusedOps::add_norm(const Tensor& x_ND, const Branch& branch, const Weight& gain, torch::ScalarType out) const {
  const bool bias_is_in = numerics().quantized();
  return add_rms_norm(x_ND, {branch.value_ND, branch.bias, bias_is_in}, gain, heads_.norm_eps, out);
}

Tensor FusedOps::linear(const Linear& linear, const Recomputable& x, bool is_read) const {
  if (!linear.adapter.empty()) return adapted_linear(linear, x, numerics(), is_read);
  if (linear.quantized == nullptr) return learner::linear(x.value, linear.weight, x.recompute, is_read);
  return quantized_linear(x.value, linear.weight,
                          {linear.quantized, numerics().low_bit(), numerics().compute, numerics().backward}, is_read);
}

Tensor FusedOps::attention(const Tensor& qkv_NC, const QkvWeights& weights) const {
  const Recomputable rotated = qkv_transform(qkv_NC, rows_, heads_, weights, numerics().quantized());
  if (!pages_) return learner::attention(rotated, rows_, heads_, {numerics().attention, numerics().between});
  return sampled_attention(rotated.value, rows_, *pages_, heads_, numerics().kv_format, numerics().compute);
}

Recomputable FusedOps::swiglu(const Tensor& halves_N2F) const { return learner::swiglu(halves_N2F); }

Tensor FusedOps::fused_mlp(const Linear& first, const Linear& second, const Tensor& x) const {
  if (!numerics().low_bit() || torch::GradMode::is_enabled()) return {};
  return quantized_mlp(x, first, second);
}

Tensor FusedOps::mlp_of_experts(const LayerWeights& layer, const Recomputable& x, bool is_read) const {
  const EnteredExperts entered = enter_experts(router_, layer, x, numerics(), *rows_.routes);
  const auto gated = [&](std::int64_t expert) {
    return swiglu(linear(layer.expert_gate_up.of(expert), {entered.rows_of(expert), {}}, true));
  };
  return leave_experts(layer, entered, gated, numerics(), is_read);
}

}  // namespace qrl::learner

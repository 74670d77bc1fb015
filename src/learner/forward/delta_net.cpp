#include "learner/forward/delta_net.h"

namespace qrl::learner {

namespace {

ops::PackedDelta packed_delta(const Tensor& projections_NC, const Tensor& gates_N2H, const DeltaWeights& weights,
                              const PackedRows& rows, const ops::DeltaShape& shape) {
  return {.shape = shape,
          .weights = {floats(weights.taps.value), floats(weights.a_log.value), floats(weights.dt_bias.value),
                      floats(weights.gain.value)},
          .sequence_starts = rows.sequence_starts.data(),
          .num_sequences = rows.num_sequences(),
          .continues_prefix = rows.continues_prefix.empty() ? nullptr : rows.continues_prefix.data(),
          .projections = mixed(projections_NC),
          .gates_in = floats(gates_N2H)};
}

}  // namespace

Tensor delta_net(const Tensor& projections_NC, const Tensor& gates_N2H, const DeltaWeights& weights,
                 const PackedRows& rows, const ops::DeltaShape& shape, torch::ScalarType out) {
  const Tensor projections = projections_NC.detach(), gates = gates_N2H.detach().to(torch::kFloat32).contiguous();
  const ops::PackedDelta packed = packed_delta(projections, gates, weights, rows, shape);
  const Tensor out_NV = torch::empty({rows.num_rows(), shape.out_width()}, torch::TensorOptions().dtype(out));
  const bool keeps = torch::GradMode::is_enabled() && (projections_NC.requires_grad() || gates_N2H.requires_grad());
  const Tensor kept =
      keeps ? torch::empty({ops::num_kept_states(packed), shape.num_value_heads, shape.key_dim, shape.value_dim})
            : Tensor();
  ops::packed_delta(packed, mixed(out_NV), floats(kept));
  const auto backward = [projections, gates, kept, weights, shape, &rows,
                         type = gates_N2H.scalar_type()](const TensorList& d) {
    const Tensor d_out_NV = d[0].contiguous(), d_projections = torch::empty(projections.sizes());
    const Tensor d_gates = torch::empty_like(gates);
    ops::packed_delta_backward(
        packed_delta(projections, gates, weights, rows, shape), floats(kept), mixed(d_out_NV),
        {floats(d_projections), floats(d_gates), floats(weights.taps.gradient), floats(weights.a_log.gradient),
         floats(weights.dt_bias.gradient), floats(weights.gain.gradient)});
    return TensorList{d_projections.to(projections.scalar_type()), d_gates.to(type)};
  };
  return differentiable({projections_NC, gates_N2H}, {out_NV}, backward)[0];
}

}  // namespace qrl::learner

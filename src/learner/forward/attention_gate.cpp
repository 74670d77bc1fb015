#include "learner/forward/attention_gate.h"

#include "ops/attention_gate.h"

namespace qrl::learner {

SplitProjections split_gates(const Tensor& projections, const Heads& heads) {
  const ops::GatedHeads shape{heads.num_heads, heads.num_kv_heads, heads.head_dim};
  const std::int64_t rows = projections.size(0);
  const auto make = [&, options = projections.options().requires_grad(false)](std::int64_t width) {
    return torch::empty({rows, width}, options);
  };
  const Tensor qkv_NC = make(shape.qkv_width()), gates_NQ = make(shape.q_width());
  ops::split_gates(shape, rows, mixed(projections.detach()), mixed(qkv_NC), mixed(gates_NQ));
  const auto backward = [shape, rows, options = qkv_NC.options()](const TensorList& d) {
    const auto gradient = [&](const Tensor& own, std::int64_t width) {
      return own.defined() ? own.contiguous() : torch::zeros({rows, width}, options);
    };
    const Tensor d_qkv_NC = gradient(d[0], shape.qkv_width()), d_gates_NQ = gradient(d[1], shape.q_width());
    const Tensor d_projections = torch::empty({rows, shape.row_width()}, options);
    ops::join_gates(shape, rows, mixed(d_qkv_NC), mixed(d_gates_NQ), mixed(d_projections));
    return TensorList{d_projections};
  };
  const TensorList out = differentiable({projections}, {qkv_NC, gates_NQ}, backward);
  return {out[0], out[1]};
}

Tensor apply_gates(const Tensor& attended_NQ, const Tensor& gates_NQ) {
  const Tensor attended = attended_NQ.detach(), gates = gates_NQ.detach(), out = torch::empty_like(attended);
  const std::int64_t rows = attended.size(0), width = attended.size(1);
  ops::apply_gates(rows, width, mixed(gates), mixed(attended), mixed(out));
  const auto backward = [attended, gates, rows, width](const TensorList& d) {
    const Tensor d_out = d[0].contiguous(), d_attended = torch::empty_like(attended),
                 d_gates = torch::empty_like(gates);
    ops::apply_gates_backward(rows, width, mixed(gates), mixed(attended), mixed(d_out), mixed(d_attended),
                              mixed(d_gates));
    return TensorList{d_attended, d_gates};
  };
  return differentiable({attended_NQ, gates_NQ}, {out}, backward)[0];
}

}  // namespace qrl::learner

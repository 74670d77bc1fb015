// Owns a sparse layer's routing: routes, rows by expert, the gated sum, and their gradients.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "learner/forward/forward_ops.h"
#include "ops/experts.h"

namespace qrl::learner {

struct EnteredExperts {
  std::shared_ptr<const ops::ExpertRows> routes;  ///< those in use
  Tensor gates_NK;                                ///< differentiable, fp32
  Tensor x_ND;                                    ///< without autograd: rows are gathered when they are read
  TensorList rows;  ///< an expert's rows of x, differentiable, in x's dtype; only with autograd

  /// Returns an expert's rows of x, of which it has one or more.
  Tensor rows_of(std::int64_t expert) const;
};

/// Routes rows of x, in the dtype of matmuls, and gathers them. Logits are fp32 sums, by the sampler's op on a
/// snapshot's router. A row uses its route in `all`, else the router's choice, which the layer's first pass writes
/// there. A row's gradient is the router's term, then its experts' by ascending index, added in fp32.
EnteredExperts enter_experts(const ops::Router& router, const LayerWeights& layer, const Recomputable& x,
                             const ForwardNumerics& numerics, RowRoutes& all);

/// Computes silu(gate) · up of an expert's rows.
using GatedRows = std::function<Recomputable(std::int64_t expert)>;

/// Computes each row's Σ gate · down(gated) over its experts by ascending index, fp32 [N, D]; without values unless
/// `is_read`. Calls `gated` for the experts that have rows; without autograd one expert's values exist at a time. A
/// gate's gradient is ⟨dY·Ŵ, X̂⟩ in fp32, with the input X̂ that the product read and dY before the gate.
Tensor leave_experts(const LayerWeights& layer, const EnteredExperts& entered, const GatedRows& gated,
                     const ForwardNumerics& numerics, bool is_read);

}  // namespace qrl::learner

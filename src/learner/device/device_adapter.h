#pragma once

#include "learner/device/torch_linear.h"
#include "learner/forward/policy_weights.h"

namespace qrl::learner {

/// Computes a low-rank adapter's output scale·B·(A·x) with LibTorch, for x, [N, in] bf16 or fp32. Rounds A, scale·B, x
/// and A·x to bf16 if the layer's weights are a snapshot's, else to x's dtype. Matmuls are in `compute` with fp32 sums.
/// The output is added to the layer's y, which is rounded once to y's dtype.
///
/// The backward pass treats this rounding as the identity (straight-through): dB = scale·dYᵀ·(A·x). With U =
/// dY·(scale·B) in `compute`: dA = Uᵀ·x, dX's part U·A. Keeps A·x and rounded x.
LayerAddition device_adapter(const Tensor& x, const Linear& linear, torch::ScalarType compute);

}  // namespace qrl::learner

// Owns a low-rank adapter's part of a linear layer out of LibTorch's matmuls. Knows neither model nor base.
#pragma once

#include "learner/policy_weights.h"

namespace qrl::learner {

/// Computes y + scale·B·(A·x), [N, out] in y's dtype, and overwrites y, the output of the layer's base for x, [N, in]
/// bf16 or fp32. A, scale·B, x and A·x are rounded to bf16 if the layer has a form in a snapshot, else to x's dtype.
/// Matmuls are of `compute` with fp32 sums; the sum with y is rounded to y's dtype once.
///
/// The backward pass uses the rounded operands, straight through the rounding: dB = scale·dYᵀ·(A·x); with U =
/// dY·(scale·B), rounded to `compute`: dA = Uᵀ·x, dX = U·A. y's gradient is dY unchanged. Kept: x, rounded, and A·x. If
/// the sum is not read, y stays unchanged.
Tensor with_device_adapter(const Tensor& y, const Tensor& x, const Linear& linear, torch::ScalarType compute,
                           bool is_read = true);

}  // namespace qrl::learner

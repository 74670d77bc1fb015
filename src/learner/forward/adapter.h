#pragma once

#include "learner/forward/forward_ops.h"

namespace qrl::learner {

/// Computes x·Wᵀ of a frozen base in the numerics' formats, plus a low-rank adapter's scale·B·(A·x) in fp32, and rounds
/// the sum. A forward pass that reads a snapshot equals the decoder's bit for bit (model::multiply_adapted). Otherwise
/// A, scale·B and A·x are rounded to x's dtype.
///
/// The backward pass is straight through the rounding. Matmuls are in `compute` with fp32 sums: dB = scale·dYᵀ·(A·x).
/// With U = dY·(scale·B), rounded to `compute`: dA = Uᵀ·x, dX = dX of the base + U·A. Unless is_read, the base is not
/// multiplied.
Tensor adapted_linear(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics,
                      bool is_read = true);

}  // namespace qrl::learner

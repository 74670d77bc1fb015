// Owns a linear layer of LibTorch's matmuls, with the decoder's rounding of its input if a format requires it. Knows no
// model.
#pragma once

#include <optional>

#include "learner/autograd.h"
#include "quant/format.h"

namespace qrl::learner {

/// Computes x · Wᵀ. The gradient of x has x's dtype. The gradient of a trained W is fp32 and not rounded before it is
/// added. With a format, x is fp32, and rounded_activations in the weight's dtype enter the product. The result is then
/// fp32, and gradients pass through the rounding. If the result is not read, only gradients count and it has no values.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {},
                     bool is_read = true);

/// Applies quant::round_activations to each row, in fp32, except for ties: fp32 [N, in] with the values that the format
/// keeps.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// Computes x · y of operands of one dtype, with fp32 sums and an fp32 result that is never rounded to that dtype.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
/// Adds x · y to an fp32 sum.
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);

}  // namespace qrl::learner

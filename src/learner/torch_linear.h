// Owns a linear layer out of LibTorch's matmuls, with the decoder's rounding of its input where a format asks for it.
// Knows no model.
#pragma once

#include <optional>

#include "learner/autograd.h"
#include "quant/format.h"

namespace qrl::learner {

/// x · Wᵀ, its gradients in x's dtype for x and in fp32, not rounded before it is added, for W where that is trained.
/// With a format x is fp32 and met by the weight as rounded_activations, in the weight's dtype; the result is fp32, and
/// gradients pass through the rounding.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {});

/// quant::round_activations of each row, in fp32, except for ties: fp32 [N, in] as quantized values of the format would
/// keep it.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// x · y, operands of one dtype, the result fp32 and not rounded to that dtype on the way: sums are fp32.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
/// sum += x · y, sum fp32.
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);

}  // namespace qrl::learner

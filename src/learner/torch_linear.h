// Owns a linear layer of LibTorch's matmuls, with the decoder's rounding of its input if a format requires it. Knows no
// model.
#pragma once

#include <functional>
#include <optional>

#include "learner/autograd.h"
#include "quant/format.h"

namespace qrl::learner {

/// Describes what a layer adds beside its product, such as an adapter's share. Null functions: nothing.
struct LayerAddition {
  std::function<void(const Tensor& y)> add_to_output;
  /// Returns a new tensor with its part of dX, to which the layer adds its own product. Has dX's shape and dtype.
  std::function<Tensor(const Tensor& d_y)> input_gradient;
};

/// Computes x · Wᵀ. The gradient of x has x's dtype. The gradient of a trained W is fp32 and not rounded before it is
/// added. With a format, x is fp32, and rounded_activations in the weight's dtype enter the product. The result is then
/// fp32, and gradients pass through the rounding. If the result is not read, only gradients count and it has no values.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {},
                     bool is_read = true, const LayerAddition& beside = {});

/// Applies quant::round_activations to each row, in fp32, except for ties: fp32 [N, in] with the values that the format
/// keeps.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// Computes x · y of operands of one dtype, with fp32 sums and an fp32 result that is never rounded to that dtype.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
/// Adds x · y to an fp32 sum.
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);
/// Adds x · y to a sum in fp32 or bf16, with fp32 sums. On the CPU a bf16 result is rounded once. On a GPU cuBLAS
/// rounds the product to bf16 before it adds, an error of 2⁻⁹ of the smaller share. One rounding would need an fp32
/// product beside the sum: 12 bytes of traffic per number in place of 4.
void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum);

}  // namespace qrl::learner

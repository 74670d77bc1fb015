// Owns a linear layer of LibTorch's matmuls, with the decoder's input rounding for a format.
#pragma once

#include <functional>
#include <optional>

#include "learner/tensors/autograd.h"
#include "quant/format.h"

namespace qrl::learner {

/// Describes a term beside a layer's product, such as an adapter's; null functions: none.
struct LayerAddition {
  std::function<void(const Tensor& y)> add_to_output;
  /// Returns a new tensor of dX's shape and dtype with this term's part, to which the layer adds its own.
  std::function<Tensor(const Tensor& d_y)> input_gradient;
};

/// Computes x · Wᵀ. The gradient of x has x's dtype; a trained W's is fp32, not rounded before it is added. With a
/// format, x is fp32 and its rounded_activations, in the weight's dtype, enter the product. The result is then fp32,
/// and gradients pass through the rounding. If not read, the result has no values.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {},
                     bool is_read = true, const LayerAddition& beside = {});

/// Applies quant::round_activations, except for ties, to each row: fp32 [N, in].
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// Computes x · y of one dtype with fp32 sums and an unrounded fp32 result.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
/// Adds x · y to an fp32 sum.
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);
/// Adds x · y to a sum in fp32 or bf16, with fp32 sums. A bf16 result is rounded once on the CPU. On a GPU cuBLAS first
/// rounds the product to bf16, an error of 2⁻⁹ of the smaller term. Avoiding it would need an fp32 product: 12 bytes of
/// traffic per number instead of 4.
void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum);

}  // namespace qrl::learner

#pragma once

#include <functional>
#include <optional>

#include "learner/forward/policy_weights.h"
#include "learner/tensors/autograd.h"
#include "quant/format.h"

namespace qrl::learner {

/// Describes a term added to a layer's product, such as an adapter's. Null functions: no term.
struct LayerAddition {
  std::function<void(const Tensor& y)> add_to_output;
  /// Returns a new tensor with this term's part of dX, in dX's shape and dtype.
  std::function<Tensor(const Tensor& d_y)> input_gradient;
};

/// Computes x · Wᵀ with LibTorch. The gradient of x has x's dtype; W's, if trained, is added in fp32 without rounding.
/// With a format, x is fp32 and multiplied as rounded_activations in the weight's dtype; the result is fp32, and
/// gradients pass through the rounding. Unless needs_output, the result has no values.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {},
                     bool needs_output = true, const LayerAddition& beside = {});

/// Applies quant::round_activations to each row, fp32 [N, in]; ties may round differently.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// Computes x · y, operands of one dtype, with fp32 sums and an unrounded fp32 result.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);
/// Adds x · y, with fp32 sums, to `sum` in fp32 or bf16. The CPU rounds a bf16 result once. On a GPU, cuBLAS first
/// rounds the product to bf16; an fp32 product would need three times the memory traffic.
void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum);

/// Computes a low-rank adapter's output scale·B·(A·x) with LibTorch, for x, [N, in] bf16 or fp32. Rounds A, scale·B, x
/// and A·x to bf16 if the layer's weights are a snapshot's, else to x's dtype. Matmuls are in `compute` with fp32 sums.
/// The output is added to the layer's y, which is rounded once to y's dtype.
///
/// The backward pass is adapted_linear's (forward/fused_ops.h), without the base. Keeps A·x and rounded x.
LayerAddition device_adapter(const Tensor& x, const Linear& linear, torch::ScalarType compute);

}  // namespace qrl::learner

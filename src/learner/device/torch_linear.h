#pragma once

#include <functional>
#include <optional>

#include "learner/forward/policy_weights.h"
#include "learner/tensors/autograd.h"
#include "quant/format.h"
#include "quant/rotation.h"

namespace qrl::learner {

/// Describes a term added to a layer's product, such as an adapter's output. Null functions add nothing.
struct LayerAddition {
  std::function<void(const Tensor& y)> add_to_output;
  /// Returns a new tensor with this term's part of dX, in dX's shape and dtype.
  std::function<Tensor(const Tensor& d_y)> input_gradient;
};

/// Says how a layer's input is rounded: rotated, quantized in a format, dequantized and rotated back.
struct InputRounding {
  quant::Format format;
  quant::Rotation rotation;
};

/// Computes x · Wᵀ with LibTorch. dX has x's dtype. If W is trained, dW is added to weight.gradient in fp32 without
/// rounding. With `rounding`, x is fp32, and the matmul multiplies the rounded x in the weight's dtype. Then the result
/// is fp32, and gradients pass straight through the rounding. Unless needs_output, the result is uninitialized.
Tensor device_linear(const Tensor& x, const Weight& weight, const std::optional<InputRounding>& rounding = {},
                     bool needs_output = true, const LayerAddition& beside = {});

/// Applies quant::round_activations to each row of x, fp32 [N, in]; ties may round differently.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// Rotates rows of x, fp32 [N, in], with the bits of quant::rotate.
Tensor rotated_rows(const Tensor& x, const quant::Rotation& rotation);

/// Computes x · y with fp32 sums, which are returned unrounded. x and y have the same dtype.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);
/// Adds x · y, summed in fp32, to `sum`, which is fp32 or bf16. On the CPU, a bf16 result is rounded once. On a GPU,
/// cuBLAS first rounds the product to bf16.
void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum);

/// Makes a low-rank adapter's term scale·B·(A·x), computed by LibTorch. x is [N, in], bf16 or fp32. A, scale·B, x and
/// A·x are rounded to bf16 if the layer reads a snapshot, else to x's dtype. Matmuls have operands in `compute` and
/// fp32 sums. add_matmul adds the term to y.
///
/// The backward pass is adapted_linear's without the base's terms.
LayerAddition device_adapter(const Tensor& x, const Linear& linear, torch::ScalarType compute);

}  // namespace qrl::learner

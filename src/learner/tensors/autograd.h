#pragma once

#include <functional>
#include <vector>

#include "learner/tensors/torch.h"

namespace qrl::learner {

using torch::Tensor;
using TensorList = std::vector<Tensor>;

/// Computes the inputs' gradients from d_outputs (undefined for an unused output). Called at most once, with autograd
/// off. May also add to gradients outside autograd (Weight::gradient).
using Backward = std::function<TensorList(const TensorList& d_outputs)>;

/// Makes `backward` the grad_fn of `outputs`, which were computed from `inputs` with autograd off. Returns `outputs`.
/// Sets no grad_fn if autograd is off or no input requires a gradient. `backward` must not capture outputs, which would
/// make a reference cycle; detached copies are allowed. The captures are freed after `backward` has run.
TensorList differentiable(const TensorList& inputs, const TensorList& outputs, Backward backward);

struct Weight {
  Tensor value;     ///< fp32 master (bf16 matmuls round it while reading), or a copy
  Tensor gradient;  ///< fp32, same shape; undefined: not trained
  bool defined() const { return value.defined(); }
};

/// Runs block(inputs, weights' values), and recomputes it bitwise in the backward pass (Chen et al. 2016, "Training
/// deep nets with sublinear memory cost"). Inputs may be undefined. Weights must be defined; their gradients are added
/// to Weight::gradient.
TensorList checkpointed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                        const std::vector<Weight>& weights = {});

/// Does the same as checkpointed, given the outputs of `block`: runs `block` only in the backward pass. Returns
/// `outputs`.
TensorList recomputed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                      const TensorList& outputs, const std::vector<Weight>& weights = {});

}  // namespace qrl::learner

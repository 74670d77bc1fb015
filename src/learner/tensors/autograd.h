// Owns how an operation of ours enters LibTorch's autograd graph.
#pragma once

#include <functional>
#include <vector>

#include "learner/tensors/torch.h"

namespace qrl::learner {

using torch::Tensor;
using TensorList = std::vector<Tensor>;

/// Computes the inputs' gradients from the outputs' (undefined for an unused output). Called at most once, with
/// autograd off. May also add to gradients that autograd does not know (Weight::gradient).
using Backward = std::function<TensorList(const TensorList& d_outputs)>;

/// Returns `outputs` (computed from `inputs` with autograd off), recorded so that the graph's backward pass calls
/// `backward`. Records nothing if autograd is off or no input needs a gradient. `backward` must not hold the outputs (a
/// cycle), only detached copies. Its tensors are freed once it has run.
TensorList differentiable(const TensorList& inputs, const TensorList& outputs, Backward backward);

/// Holds a weight as the forward pass reads it, and the accumulator of its gradient.
struct Weight {
  Tensor value;     ///< the fp32 master; matmuls round it to bf16 as they read it where they compute in bf16
  Tensor gradient;  ///< fp32, same shape; undefined: the weight is not trained
  bool defined() const { return value.defined(); }
};

/// Runs block(inputs, weights' values), and recomputes its tensors in the backward pass with the same bits (Chen et al.
/// 2016, "Training deep nets with sublinear memory cost"). Inputs may be undefined. Weights must be defined; autograd
/// adds their gradients to Weight::gradient.
TensorList checkpointed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                        const std::vector<Weight>& weights = {});

/// Does the same for known `outputs` without a history, and returns them recorded.
TensorList recomputed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                      const TensorList& outputs, const std::vector<Weight>& weights = {});

}  // namespace qrl::learner

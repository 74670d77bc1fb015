// Owns how an operation of ours enters LibTorch's autograd graph. Knows no operation.
#pragma once

#include <functional>
#include <vector>

#include "learner/torch.h"

namespace qrl::learner {

using torch::Tensor;
using TensorList = std::vector<Tensor>;

/// Gradients of the inputs from those of the outputs (undefined where an output went unused). Called at most once, with
/// autograd off. May also add to gradients that autograd does not know (Weight::gradient).
using Backward = std::function<TensorList(const TensorList& d_outputs)>;

/// Returns `outputs` (computed from `inputs` with autograd off), recorded so that the graph's backward pass calls
/// `backward`. They are not recorded if autograd is off or no input needs a gradient. `backward` must not hold the
/// outputs themselves (a cycle), only detached copies. Tensors that it holds are freed once it has run.
TensorList differentiable(const TensorList& inputs, const TensorList& outputs, Backward backward);

/// Holds a weight as the forward pass reads it, and the accumulator of its gradient.
struct Weight {
  Tensor value;     ///< the fp32 master; matmuls round it to bf16 as they read it where they compute in bf16
  Tensor gradient;  ///< fp32, same shape; undefined: the weight is not trained
  bool defined() const { return value.defined(); }
};

/// Runs block(inputs, then the weights' values) without keeping the tensors of its backward pass, which recomputes them
/// with the same bits (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Inputs may be undefined.
/// Weights must be defined, and are those whose gradients autograd adds to Weight::gradient.
TensorList checkpointed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                        const std::vector<Weight>& weights = {});

/// Does the same for known results: returns `outputs` (without a history) recorded.
TensorList recomputed(const std::function<TensorList(const TensorList&)>& block, const TensorList& inputs,
                      const TensorList& outputs, const std::vector<Weight>& weights = {});

}  // namespace qrl::learner

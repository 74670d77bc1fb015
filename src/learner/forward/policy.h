#pragma once

#include <functional>
#include <memory>

#include "learner/forward/forward_ops.h"

namespace qrl::learner {

struct ForwardOptions {
  /// Keeps only each layer's input. If norms can be recomputed, keeps the stream before each norm instead.
  bool activation_checkpointing = false;
  /// The decoder's residual stream after each layer, [N, D] fp32, or null. The forward pass takes these values; the
  /// backward pass recomputes each layer.
  const TensorList* after_layer = nullptr;
  /// Called in the backward pass when a layer's gradients are complete; may be empty.
  std::function<void(std::size_t layer)> layer_done;
};

/// Computes lm_head's input: the final norm's output, [N, D] in lm_head's dtype. Tensors of `weights` must outlive the
/// backward pass.
Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options);

}  // namespace qrl::learner

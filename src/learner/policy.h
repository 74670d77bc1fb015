// Owns the forward pass of the supported families: the order of operations of a transformer block, stated once for
// every implementation of them. Knows no loss.
#pragma once

#include <functional>
#include <memory>

#include "learner/forward_ops.h"

namespace qrl::learner {

/// Selects how a forward pass runs through the layers, apart from weights and operations.
struct ForwardOptions {
  /// Keep only the input of each layer. If norms can be recomputed, keep the stream before each norm instead, so that
  /// the last product of either part of a layer is not recomputed.
  bool activation_checkpointing = false;
  /// Not null: the residual stream after each layer as the decoder computed it, [N, D] fp32. These are then the values
  /// of the forward pass, and the backward pass recomputes each layer from its input.
  const TensorList* after_layer = nullptr;
  /// Called in the backward pass when a layer's gradients are complete. Empty: not wanted.
  std::function<void(std::size_t layer)> layer_done;
};

/// Computes the input of lm_head: the last layer's output after the final norm, [N, D] in the dtype of lm_head. Tensors
/// of `weights` must outlive the backward pass.
Tensor hidden_states(const PolicyWeights& weights, const std::shared_ptr<const Ops>& ops,
                     const ForwardOptions& options);

}  // namespace qrl::learner

#pragma once

#include "learner/forward/layers.h"

namespace qrl::learner {

struct SplitProjections {
  Tensor qkv_NC, gates_NQ;  ///< [N, (H+2K)·E] and [N, H·E], in the projections' dtype
};

/// Takes each head's gate out of the rows of projections (ops/attention_gate.h).
SplitProjections split_gates(const Tensor& projections, const Heads& heads);

/// Computes attended · σ(gates) in fp32, [N, H·E] in attended's dtype; equals the decoder's bitwise if all is fp32.
Tensor apply_gates(const Tensor& attended_NQ, const Tensor& gates_NQ);

}  // namespace qrl::learner

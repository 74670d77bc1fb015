#pragma once

#include "learner/forward/layers.h"
#include "ops/delta_net.h"

namespace qrl::learner {

/// Holds a DeltaNet layer's weights besides its matrices, as Hugging Face stores them: conv1d.weight [C, 1, taps],
/// A_log and dt_bias [Hv], norm.weight [dv].
struct DeltaWeights {
  Weight taps, a_log, dt_bias, gain;
};

/// Computes a DeltaNet layer between its projections and out_proj (ops/delta_net.h), [N, Hv·dv] in dtype `out`.
/// projections_NC is bf16 or fp32; gates_N2H holds b, then a. Arithmetic and sums are fp32. With autograd, keeps
/// projections_NC, and states in fp32 (ops::num_kept_states). `rows` must outlive the backward pass.
Tensor delta_net(const Tensor& projections_NC, const Tensor& gates_N2H, const DeltaWeights& weights,
                 const PackedRows& rows, const ops::DeltaShape& shape, torch::ScalarType out);

}  // namespace qrl::learner

#pragma once

#include "learner/forward/logprob.h"

namespace qrl::cuda {
class TrainingKernels;  // cuda/train/training.h
}

namespace qrl::learner {

/// Computes target_log_probs on a device, chunk by chunk; the backward pass recomputes the logits. Logits are exact
/// matmuls of hidden states and lm_head (both in hidden_ND's dtype) with fp32 sums. Log-softmax and entropy are fp32.
/// The scores are copied to CPU memory. With `kernels`, reads a chunk's logits once for the scores and once for their
/// gradient; null: LibTorch's operations. Given `known` scores, returns them and computes only the backward pass.
/// `targets` and `kernels` must outlive the backward pass.
TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known = nullptr);

}  // namespace qrl::learner

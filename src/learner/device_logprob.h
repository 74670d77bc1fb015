// Owns log-probs of targets out of LibTorch's own operations, or a device's kernels (device_kernels.h): what a GPU runs
// in logprob.h's place. Knows neither the layers below nor the loss above.
#pragma once

#include "learner/logprob.h"

namespace qrl::cuda {
class TrainingKernels;  // cuda/train/training.h
}

namespace qrl::learner {

/// As target_log_probs, chunk by chunk and recomputed for the backward pass: logits are exact matmuls of hidden states
/// and lm_head (both in hidden_ND's dtype) with fp32 sums, log-softmax and entropy fp32. hidden_ND and lm_head on one
/// device, the scores on their way to CPU memory, where the objective is. With `kernels` a chunk's logits are read once
/// for the scores and once for their gradient; null: LibTorch's operations. With `known` the scores are those, and the
/// backward pass alone is computed. `targets` and `kernels` must outlive the backward pass.
TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known = nullptr);

}  // namespace qrl::learner

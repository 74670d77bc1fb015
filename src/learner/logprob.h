// Owns the fused product with lm_head, log-softmax and entropy: log-probs of targets without tokens × vocabulary in
// memory. Knows neither the layers below nor the loss above.
#pragma once

#include "learner/layers.h"
#include "ops/sample.h"

namespace qrl::learner {

/// Which rows are asked, and how.
struct TargetRows {
  std::vector<std::int64_t> rows;     ///< M row numbers, ascending
  std::vector<std::int32_t> targets;  ///< M
  ops::DrawParams drawn_from;         ///< temperature, and what top-k and top-p leave: as the sampler drew
  std::int64_t chunk_tokens = 1024;   ///< rows whose logits exist at once
};

/// Log-probs of the targets and entropies, fp32 [M] each.
struct TargetScores {
  Tensor log_probs_M, entropy_M;
};

/// Logits are fp32 sums of the compute dtype's values; log-softmax is fp32. The backward pass recomputes the logits
/// chunk by chunk. `lm_head_logits`: lm_head's values as fp32. `targets` must outlive the backward pass.
TargetScores target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const Tensor& lm_head_logits,
                              const TargetRows& targets);

}  // namespace qrl::learner

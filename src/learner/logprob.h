// Owns the fused matmul with lm_head, log-softmax and entropy: log-probs of targets without tokens × vocabulary in
// memory. Knows neither the layers below nor the loss above.
#pragma once

#include <memory>

#include "learner/host_copies.h"
#include "learner/layers.h"
#include "ops/linear.h"
#include "types/kept_tokens.h"

namespace qrl::learner {

/// Selects the rows to score, and how.
struct TargetRows {
  std::vector<std::int64_t> rows;     ///< M row numbers, ascending
  std::vector<std::int32_t> targets;  ///< M
  float temperature = 1.0F;           ///< the sampler's
  /// M, or none: the tokens that the sampler drew each target from; its distribution is over them. They point into the
  /// micro-batch.
  std::vector<std::span<const types::TokenId>> kept = {};
  std::int64_t chunk_tokens = 1024;  ///< rows whose logits exist at once
  bool entropy_is_trained = true;    ///< whether a gradient of the entropies may come
  std::span<const types::TokenId> kept_of(std::int64_t target) const {
    return kept.empty() ? std::span<const types::TokenId>() : kept[static_cast<std::size_t>(target)];
  }
};

/// Holds log-probs of the targets and entropies, fp32 [M] each, in host memory.
struct TargetScores {
  Tensor log_probs_M, entropy_M;
  std::shared_ptr<const Arrival> arrival = nullptr;  ///< arrival of both from a device; null: they have arrived
  void wait() const {
    if (arrival != nullptr) arrival->wait();
  }
};

/// Computes log-probs and entropies. Logits are ops::linear's, from hidden states quantized for `head` (lm_head as the
/// kernels read it); log-softmax is fp32. The backward pass goes through lm_head.value, or through the values of `head`
/// if it is undefined. If neither lm_head nor the entropies are trained, the forward pass keeps the gradient of each
/// log-prob by its hidden state, fp32 [M, D]. It is computed from the gradient by the logits in the hidden states'
/// dtype. Otherwise the backward pass recomputes the logits chunk by chunk. With `as_sampled` the log-probs are
/// ops::logprob's, the sampler's own bits. `head`, `targets` and their micro-batch must outlive the backward pass.
TargetScores target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const ops::PackedLinear& head,
                              const TargetRows& targets, bool as_sampled = false);

}  // namespace qrl::learner

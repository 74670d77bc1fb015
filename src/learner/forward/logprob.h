#pragma once

#include <memory>

#include "learner/forward/layers.h"
#include "learner/tensors/host_copies.h"
#include "ops/linear.h"
#include "types/kept_tokens.h"

namespace qrl::learner {

struct TargetRows {
  std::vector<std::int64_t> rows;     ///< [M], ascending
  std::vector<std::int32_t> targets;  ///< [M]
  float temperature = 1.0F;           ///< divisor of lm_head's outputs: the sampling temperature · logits_scaling
  /// One span into the micro-batch per target: the tokens that top-k and top-p kept. Empty without these.
  std::vector<std::span<const types::TokenId>> kept = {};
  std::int64_t chunk_tokens = 1024;  ///< largest number of rows whose logits exist at once
  bool entropy_is_trained = true;    ///< whether entropies may have a gradient
  std::span<const types::TokenId> kept_of(std::int64_t target) const {
    return kept.empty() ? std::span<const types::TokenId>() : kept[static_cast<std::size_t>(target)];
  }
};

/// Holds log-probs and entropies, fp32 [M] each, in host memory.
struct TargetScores {
  Tensor log_probs_M, entropy_M;
  std::shared_ptr<const Arrival> arrival = nullptr;  ///< pending copy from the device; null: none
  void wait() const {
    if (arrival != nullptr) arrival->wait();
  }
};

/// Quantizes hidden states for `head` (packed lm_head), computes logits with ops::linear, and applies log-softmax in
/// fp32. The backward pass multiplies by lm_head.value, or by `head` if lm_head is undefined. If neither lm_head nor
/// entropies are trained, the forward pass computes d log-prob / d hidden state, fp32 [M, D]. Otherwise the backward
/// pass has the logits of an only chunk, and recomputes those of several. With a `head` of int8, the backward pass
/// multiplies its dequantized weights and inputs. d_logits have the dtype `gradients`. With `as_sampled`, log-probs
/// equal the sampler's ops::logprob bitwise. `head`, `targets` and the micro-batch must outlive the backward pass.
TargetScores target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const ops::PackedLinear& head,
                              const TargetRows& targets, torch::ScalarType gradients, bool as_sampled = false);

}  // namespace qrl::learner

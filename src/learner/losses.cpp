#include "learner/losses.h"

#include "base/error.h"

namespace qrl::learner {

torch::Tensor probability_ratio(const torch::Tensor& log_p, const torch::Tensor& log_q) {
  return (log_p - log_q).clamp(-kMaxLogRatio, kMaxLogRatio).exp();
}

torch::Tensor clipped_policy_loss(const torch::Tensor& ratio, const torch::Tensor& advantages, const ClipRange& clip) {
  const torch::Tensor clipped = ratio.clamp(1 - clip.low, 1 + clip.high);
  return -torch::minimum(ratio * advantages, clipped * advantages);
}

torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, config::KlType type) {
  const torch::Tensor k1 = (log_p - log_reference).clamp(-kMaxLogRatio, kMaxLogRatio);
  const auto estimate = [&] {
    switch (type) {
      case config::KlType::k1:
        return k1;
      case config::KlType::k2:
        return k1 * k1 / 2;
      case config::KlType::k3:
        break;
    }
    return torch::exp(-k1) + k1 - 1;
  };
  return estimate().clamp(-kMaxKl, kMaxKl);
}

torch::Tensor seq_mean_token_mean_weights(const torch::Tensor& sequence_of_token, std::int64_t num_sequences) {
  QRL_INVARIANT(num_sequences > 0, "seq-mean-token-mean", "sequences that count", std::to_string(num_sequences));
  const torch::Tensor lengths = torch::bincount(sequence_of_token).to(torch::kFloat64);
  return 1.0 / (lengths.index_select(0, sequence_of_token) * static_cast<double>(num_sequences));
}

}  // namespace qrl::learner

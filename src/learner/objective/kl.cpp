#include "learner/objective/kl.h"

#include "learner/objective/tokens.h"

namespace qrl::learner {

torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, config::KlType type) {
  const torch::Tensor k1 = log_ratio(log_p, log_reference);
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

}  // namespace qrl::learner

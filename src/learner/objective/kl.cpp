#include "learner/objective/kl.h"

#include "learner/objective/list.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

namespace {

torch::Tensor estimate_k1(const torch::Tensor& k1) { return k1; }
torch::Tensor estimate_k2(const torch::Tensor& k1) { return k1 * k1 / 2; }
torch::Tensor estimate_k3(const torch::Tensor& k1) { return torch::exp(-k1) + k1 - 1; }

const KlEstimator kK1{{.word = "k1", .what = "log π_θ − log π_ref"}, estimate_k1};
const KlEstimator kK2{{.word = "k2", .what = "k1²/2"}, estimate_k2};
const KlEstimator kK3{{.word = "k3", .what = "e^(−k1) + k1 − 1", .paper = "Shao et al. 2024, DeepSeekMath, eq. 4"},
                      estimate_k3};

}  // namespace

config::Choices kl_estimators() { return {{&kK1, &kK2, &kK3}, "k3"}; }

torch::Tensor kl_penalty(const torch::Tensor& log_p, const torch::Tensor& log_reference, const KlEstimator& estimator) {
  return estimator.estimate(log_ratio(log_p, log_reference)).clamp(-kMaxKl, kMaxKl);
}

}  // namespace qrl::learner

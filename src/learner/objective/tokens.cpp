#include "learner/objective/tokens.h"

#include <utility>

namespace qrl::learner {

torch::Tensor log_ratio(const torch::Tensor& log_p, const torch::Tensor& log_q) {
  return (log_p - log_q).clamp(-kMaxLogRatio, kMaxLogRatio);
}

Sequences::Sequences(torch::Tensor of_token)
    : of_token_M_(std::move(of_token)), lengths_S_(torch::bincount(of_token_M_).to(torch::kFloat64)) {}

torch::Tensor Sequences::sum(const torch::Tensor& values_M) const {
  return torch::zeros({num_slots()}, values_M.options().requires_grad(false)).index_add(0, of_token_M_, values_M);
}

torch::Tensor Sequences::mean(const torch::Tensor& values_M) const {
  return sum(values_M) / lengths_S_.clamp_min(1).to(values_M.dtype());
}

torch::Tensor Sequences::largest(const torch::Tensor& values_M) const {
  return torch::zeros({num_slots()}, values_M.options().requires_grad(false))
      .scatter_reduce(0, of_token_M_, values_M, "amax", false);
}

torch::Tensor Sequences::on_tokens(const torch::Tensor& values_S) const {
  return values_S.index_select(0, of_token_M_);
}

}  // namespace qrl::learner

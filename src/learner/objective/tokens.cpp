#include "learner/objective/tokens.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

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

std::vector<double> counted(const std::vector<float>& per_token, const std::vector<std::int64_t>& rows,
                            std::size_t num_tokens, const char* name) {
  QRL_INVARIANT(per_token.size() == num_tokens, "micro-batch", std::string(name) + " of N entries",
                std::to_string(per_token.size()));
  std::vector<double> values;
  values.reserve(rows.size());
  for (const std::int64_t row : rows) values.push_back(static_cast<double>(per_token[static_cast<std::size_t>(row)]));
  return values;
}

std::vector<std::int64_t> counted_rows(const types::MicroBatch& batch) {
  std::vector<std::int64_t> rows;
  for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
    if (batch.loss_mask[t] != 0) rows.push_back(static_cast<std::int64_t>(t));
  }
  return rows;
}

std::vector<std::int64_t> positions_of(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows) {
  const auto& starts = batch.sequence_starts;
  std::vector<std::int64_t> positions;
  for (const std::int64_t row : rows) {
    const auto sequence =
        static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), row) - starts.begin()) - 1;
    const std::int64_t idx =
        batch.sequence_idx.empty() ? static_cast<std::int64_t>(sequence) : batch.sequence_idx[sequence];
    positions.push_back((idx << 32) + row - starts[sequence]);
  }
  return positions;
}

torch::Tensor sequence_of_rows(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows) {
  const torch::Tensor sequences = torch::empty({static_cast<std::int64_t>(rows.size())}, torch::kInt64);
  const auto& starts = batch.sequence_starts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), rows[i]);
    sequences.data_ptr<std::int64_t>()[i] = next - starts.begin() - 1;
  }
  return sequences;
}

}  // namespace qrl::learner

#include "learner/objective/aggregation.h"

#include "base/error.h"

namespace qrl::learner {

torch::Tensor token_shares(config::LossAggMode mode, const Sequences& sequences, const Denominators& denominators) {
  QRL_INVARIANT(denominators.tokens > 0 && denominators.sequences > 0, "loss aggregation", "tokens that count",
                std::to_string(denominators.tokens));
  const auto num_sequences = static_cast<double>(denominators.sequences);
  const auto all = [&](double share) { return torch::full({sequences.num_tokens()}, share, torch::kFloat64); };
  switch (mode) {
    case config::LossAggMode::token_mean:
      return all(1 / static_cast<double>(denominators.tokens));
    case config::LossAggMode::token_sum:
      return all(1);
    case config::LossAggMode::seq_mean_token_sum:
      return all(1 / num_sequences);
    case config::LossAggMode::seq_mean_token_sum_norm:
      QRL_INVARIANT(denominators.max_response_length > 0, "seq-mean-token-sum-norm", "data.max_response_length", "0");
      return all(1 / (num_sequences * static_cast<double>(denominators.max_response_length)));
    case config::LossAggMode::seq_mean_token_mean:
      break;
  }
  return 1 / (sequences.on_tokens(sequences.lengths()) * num_sequences);
}

}  // namespace qrl::learner

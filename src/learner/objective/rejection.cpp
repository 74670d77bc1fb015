#include "learner/objective/rejection.h"

#include <cmath>

namespace qrl::learner {

namespace {

torch::Tensor statistic_of_tokens(const torch::Tensor& log_rho, config::RsStat stat) {
  switch (stat) {
    case config::RsStat::k1:
      break;
    case config::RsStat::k2:
      return log_rho * log_rho / 2;
    case config::RsStat::k3:
      return torch::expm1(log_rho) - log_rho;
  }
  return log_rho;
}

torch::Tensor statistic(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings) {
  const torch::Tensor of_tokens = statistic_of_tokens(log_rho, settings.stat);
  switch (settings.level) {
    case config::RsLevel::none:
      return {};
    case config::RsLevel::token:
      return of_tokens;
    case config::RsLevel::seq_sum: {
      const torch::Tensor sum = sequences.sum(of_tokens);
      return sequences.on_tokens(settings.stat == config::RsStat::k1 ? sum.clamp(-kMaxLogRatio, kMaxLogRatio) : sum);
    }
    case config::RsLevel::seq_mean:
      return sequences.on_tokens(sequences.mean(of_tokens));
    case config::RsLevel::seq_max:
      break;
  }
  return sequences.on_tokens(sequences.largest(of_tokens));
}

}  // namespace

Kept kept_tokens(const torch::Tensor& log_rho, const Sequences& sequences, const RejectionSettings& settings) {
  Kept kept;
  if (const torch::Tensor of_tokens = statistic(log_rho, sequences, settings); of_tokens.defined()) {
    const torch::Tensor value = settings.stat == config::RsStat::k1 ? of_tokens.exp() : of_tokens;
    kept.tokens = value <= settings.threshold;
    if (settings.stat == config::RsStat::k1) kept.tokens = kept.tokens & (value >= settings.threshold_low);
  }
  if (settings.veto > 0) {
    kept.vetoed = sequences.sum((log_rho.exp() < settings.veto).to(torch::kFloat64)) > 0;
    const torch::Tensor spared = sequences.on_tokens(kept.vetoed).logical_not();
    kept.tokens = kept.tokens.defined() ? kept.tokens & spared : spared;
  }
  return kept;
}

}  // namespace qrl::learner

#include "learner/objective/ais.h"

#include <algorithm>
#include <cmath>

namespace qrl::learner {

namespace {

constexpr double kMaxLogRho = 20;

/// Of a mean of squares and a mean; not below 0 for rounding's sake.
double population_variance(double squares, double mean) { return std::max(0.0, squares - mean * mean); }

}  // namespace

AisSums ais_sums(std::span<const double> old_log_probs, std::span<const double> sampler_log_probs,
                 std::span<const double> advantages, double cap) {
  AisSums sums;
  for (std::size_t t = 0; t < old_log_probs.size(); ++t) {
    const double log_rho = std::clamp(old_log_probs[t] - sampler_log_probs[t], -kMaxLogRho, kMaxLogRho);
    const double w = std::min(std::exp(log_rho), cap), a = advantages[t];
    sums.tokens += 1;
    sums.w += w;
    sums.w_squared += w * w;
    sums.a += a;
    sums.a_squared += a * a;
    sums.aw += a * w;
    sums.aw_squared += a * w * a * w;
    sums.abs_log_rho += std::fabs(log_rho);
  }
  return sums;
}

AisSignals ais_signals(const AisSums& sums, const config::AisRecipe& settings) {
  AisSignals signals;
  if (sums.tokens == 0) return signals;
  const double n = sums.tokens, mean_w = sums.w / n;
  const double cv_squared = population_variance(sums.w_squared / n, mean_w) / (mean_w * mean_w);
  const double sigma_a = std::sqrt(population_variance(sums.a_squared / n, sums.a / n));
  const double sigma_aw = std::sqrt(population_variance(sums.aw_squared / n, sums.aw / n));
  signals.alpha_ess = 1 / std::sqrt(1 + cv_squared);
  signals.mean_abs_log_rho = sums.abs_log_rho / n;
  signals.alpha_mis = std::min(1.0, signals.mean_abs_log_rho / settings.delta);
  signals.sigma_ratio = sigma_aw / (sigma_a + settings.eps);
  signals.alpha_var = std::max(0.0, (signals.sigma_ratio - settings.gamma) / settings.gamma);
  signals.alpha = std::clamp(signals.alpha_ess - settings.beta_var * signals.alpha_var, 0.0, 1.0) * signals.alpha_mis;
  return signals;
}

}  // namespace qrl::learner

#pragma once

#include <cstdint>

namespace qrl::train {

/// Sums over tokens in fp64: d = learner's − sampler's log-prob, ρ = exp(d). NaN propagates.
class GapSums {
 public:
  void add(double learner_logprob, double sampler_logprob);

  std::int64_t count() const { return count_; }
  double k1() const;        ///< mean of −d
  double k3() const;        ///< mean of ρ − 1 − d
  double mean_abs() const;  ///< of d
  double max_abs() const { return max_abs_; }
  double ess() const;             ///< effective sample size as a share: (Σρ)² / (count · Σρ²)
  double share_beyond_2() const;  ///< share of tokens with ρ above 2, the bound of truncated importance sampling

 private:
  std::int64_t count_ = 0, beyond_2_ = 0;
  double sum_ = 0, k3_ = 0, abs_ = 0, max_abs_ = 0, rho_ = 0, rho_squared_ = 0;
};

}  // namespace qrl::train

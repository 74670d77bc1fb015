#include "train/metrics/gap_sums.h"

#include <cmath>

namespace qrl::train {

void GapSums::add(double learner_logprob, double sampler_logprob) {
  const double difference = learner_logprob - sampler_logprob, rho = std::exp(difference);
  ++count_;
  sum_ += difference;
  k3_ += std::expm1(difference) - difference;
  abs_ += std::abs(difference);
  if (!(std::abs(difference) <= max_abs_)) max_abs_ = std::abs(difference);
  rho_ += rho;
  rho_squared_ += rho * rho;
  if (!(rho <= 2)) ++beyond_2_;
}

double GapSums::k1() const { return -sum_ / static_cast<double>(count_); }
double GapSums::k3() const { return k3_ / static_cast<double>(count_); }
double GapSums::mean_abs() const { return abs_ / static_cast<double>(count_); }
double GapSums::ess() const { return rho_ * rho_ / (static_cast<double>(count_) * rho_squared_); }
double GapSums::share_beyond_2() const { return static_cast<double>(beyond_2_) / static_cast<double>(count_); }

}  // namespace qrl::train

#include "compare/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace qrl::compare {

namespace {

constexpr double kEqual = 1e-12;  // relative rounding of a sum of 20 values, with room

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

/// Returns the argument where an increasing function of [low, high] reaches `value`.
template <class Function>
double bisect(double low, double high, double value, const Function& function) {
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    (function(middle) < value ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Returns P(T > critical) of the noncentral t distribution, by Simpson's rule over the sample deviation.
double power_of(double noncentrality, double critical, double dof) {
  constexpr int kIntervals = 2000;
  constexpr double kMost = 6;  // deviations; beyond them the density is below 1e-16 for 5 degrees of freedom
  const double scale =
      std::log(2.0) + 0.5 * dof * std::log(0.5 * dof) - std::lgamma(0.5 * dof);  // of the density of s = sqrt(chi²/dof)
  double sum = 0;
  for (int i = 1; i <= kIntervals; ++i) {
    const double s = kMost * i / kIntervals;
    const double density = std::exp(scale + (dof - 1) * std::log(s) - 0.5 * dof * s * s);
    sum += (i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2) * density * normal_cdf(noncentrality - critical * s);
  }
  return sum * kMost / kIntervals / 3;
}

}  // namespace

SignFlips::SignFlips(std::span<const double> differences) {
  const std::size_t count = differences.size();
  QRL_INVARIANT(count >= 1 && count <= kMostPairs, "sign flips", "1 to 20 differences", std::to_string(count));
  double largest = 0;
  for (const double value : differences) largest = std::max(largest, std::abs(value));
  tolerance_ = kEqual * largest;
  std::vector<double> sums(std::size_t{1} << count);
  for (std::size_t subset = 1; subset < sums.size(); ++subset)
    sums[subset] = sums[subset & (subset - 1)] + differences[static_cast<std::size_t>(std::countr_zero(subset))];
  means_.reserve(sums.size() - 1);
  for (std::size_t subset = 1; subset < sums.size(); ++subset)
    means_.push_back(sums[subset] / static_cast<double>(std::popcount(subset)));
  mean_ = means_.back();
  std::ranges::sort(means_);
}

// A flip of the signs of a subset keeps the sum at least as large exactly where the subset's mean is at most `center`.
double SignFlips::p_above(double center) const {
  const auto end = std::upper_bound(means_.begin(), means_.end(), center + tolerance_);
  return (1 + static_cast<double>(end - means_.begin())) / total();
}

double SignFlips::p_below(double center) const {
  const auto begin = std::lower_bound(means_.begin(), means_.end(), center - tolerance_);
  return (1 + static_cast<double>(means_.end() - begin)) / total();
}

double SignFlips::p_two_sided(double center) const {
  return std::min(1.0, 2 * std::min(p_above(center), p_below(center)));
}

double SignFlips::p_within(double margin) const { return std::max(p_above(-margin), p_below(margin)); }

Interval SignFlips::interval(double confidence) const {
  const double rank = std::floor(0.5 * (1 - confidence) * total() * (1 + kEqual));
  const double infinity = std::numeric_limits<double>::infinity();
  if (rank < 1) return {-infinity, infinity};
  const auto place = static_cast<std::size_t>(rank) - 1;
  return {means_[place], means_[means_.size() - 1 - place]};
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
double t_cdf(double t, int dof) {
  const double angle = std::atan(std::abs(t) / std::sqrt(dof)), cosine = std::cos(angle), sine = std::sin(angle);
  double sum = 0, term = dof % 2 == 1 ? cosine : 1.0;
  for (int k = dof % 2 == 1 ? 2 : 1; k < dof; k += 2) {
    sum += term;
    term *= cosine * cosine * k / (k + 1);
  }
  const double inside = dof % 2 == 1 ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
  return t < 0 ? 0.5 * (1 - inside) : 0.5 * (1 + inside);
}

double t_quantile(double p, int dof) {
  return bisect(-1e6, 1e6, p, [dof](double t) { return t_cdf(t, dof); });
}

double t_test(std::span<const double> differences) {
  const auto count = static_cast<double>(differences.size());
  const double mean = mean_of(differences), error = deviation_of(differences) / std::sqrt(count);
  if (error == 0) return mean == 0 ? 1 : 0;
  return 2 * t_cdf(-std::abs(mean / error), static_cast<int>(differences.size()) - 1);
}

Interval t_interval(std::span<const double> differences, double confidence) {
  const double mean = mean_of(differences);
  const double reach = t_quantile(0.5 * (1 + confidence), static_cast<int>(differences.size()) - 1) *
                       deviation_of(differences) / std::sqrt(static_cast<double>(differences.size()));
  return {mean - reach, mean + reach};
}

double attained_level(std::size_t num_pairs, double alpha) {
  const double flips = std::ldexp(1.0, static_cast<int>(num_pairs));
  return 2 * std::floor(0.5 * alpha * flips * (1 + kEqual)) / flips;
}

double detectable_effect(std::size_t num_pairs, double alpha, double power) {
  if (alpha <= 0) return std::numeric_limits<double>::infinity();
  const auto count = static_cast<double>(num_pairs);
  const double critical = t_quantile(1 - alpha, static_cast<int>(num_pairs) - 1);
  return bisect(0, 1e3, power, [&](double effect) { return power_of(effect * std::sqrt(count), critical, count - 1); });
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

}  // namespace qrl::compare

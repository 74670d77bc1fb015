// Owns the tests of paired differences: exact sign flips, Student's t and Holm's correction. All sums are in fp64.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace qrl::compare {

inline constexpr std::size_t kLeastPairs = 6;  ///< fewer pairs reach no two-sided p of 0.05
inline constexpr std::size_t kMostPairs = 20;  ///< sign flips are enumerated, 2^n of them

struct Interval {
  double low, high;
};

/// Holds the exact sign-flip test of differences that are symmetric about a center under the null hypothesis. Values
/// that differ by rounding count as equal.
class SignFlips {
 public:
  /// `differences`: 1 to kMostPairs finite values. Throws an internal error for other numbers of values.
  explicit SignFlips(std::span<const double> differences);

  /// Return p-values of the one-sided tests: that the center exceeds `center`, or is below it.
  double p_above(double center) const;
  double p_below(double center) const;
  double p_two_sided(double center = 0) const;
  /// Returns the p-value of two one-sided tests: that the center lies between -margin and margin.
  double p_within(double margin) const;
  /// Returns the centers that the two-sided test at level 1 - `confidence` does not reject.
  Interval interval(double confidence) const;
  double mean() const { return mean_; }

 private:
  double total() const { return static_cast<double>(means_.size() + 1); }

  std::vector<double> means_;  ///< sorted means of all non-empty subsets
  double mean_ = 0, tolerance_ = 0;
};

double mean_of(std::span<const double> values);
/// Returns the sample standard deviation (n - 1); NaN for one value.
double deviation_of(std::span<const double> values);

/// Returns P(T <= t) of Student's distribution with `dof` >= 1 degrees of freedom.
double t_cdf(double t, int dof);
double t_quantile(double p, int dof);
/// Returns the p-value of the two-sided paired t test. Equal non-zero differences give 0, zeros give 1.
double t_test(std::span<const double> differences);
Interval t_interval(std::span<const double> differences, double confidence);

/// Returns the two-sided level that sign flips of `num_pairs` attain at nominal `alpha`; 0 if none.
double attained_level(std::size_t num_pairs, double alpha);
/// Returns the mean difference, in deviations, that a one-sided t test of `num_pairs` at `alpha` detects with
/// probability `power`; infinity if alpha is 0. A noncentral t distribution is integrated numerically.
double detectable_effect(std::size_t num_pairs, double alpha, double power);

/// Returns Holm's adjusted p-values, in the order of `p`.
std::vector<double> holm(std::span<const double> p);

}  // namespace qrl::compare

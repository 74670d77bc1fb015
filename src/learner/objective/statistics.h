#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dist/collectives.h"

namespace qrl::learner {

struct PolicyTokens {
  std::span<const double> log_probs, old_log_probs, sampler_log_probs, entropy;
  std::span<const double> weights;
};

/// Sums statistics of a mini-batch's tokens in fp64, in the order of calls.
class Statistics {
 public:
  void add_policy_tokens(const PolicyTokens& tokens);
  /// Adds a micro-batch's share of metric `name`, already divided by global counts.
  void add_share(const std::string& name, double share) { add(name, {Kind::share, share, 1}); }
  /// Adds to metric `name`. The metric is Σ sum / Σ count, and is absent if Σ count is 0.
  void add_mean(const std::string& name, double sum, double count) { add(name, {Kind::mean, sum, count}); }
  void add_max(const std::string& name, double value) { add(name, {Kind::max, value, 1}); }
  void add_min(const std::string& name, double value) { add(name, {Kind::min, value, 1}); }

  /// Returns the metrics over all ranks: the added names, and those of add_policy_tokens (docs/reference/metrics.md).
  /// Ranks that add a name must use the same function; a rank may omit a name. Collective.
  std::map<std::string, double> reduce(dist::Collectives& world);

 private:
  struct Sums {
    double tokens = 0, entropy = 0, ppo_kl = 0;
    double k1 = 0, k3 = 0, abs_log_diff = 0, abs_prob_diff = 0;
    double rho = 0, rho_squared = 0, weight = 0, weight_squared = 0;
  };
  struct Extremes {
    double max_abs_log_diff = 0, max_rho = 0, negative_min_rho = -1e300;
  };
  enum class Kind : char { share = 's', mean = 'n', max = 'x', min = 'i' };
  struct Entry {
    Kind kind;
    double value, count;
  };
  void add(const std::string& name, Entry entry);
  std::map<std::string, double> reduce_named(dist::Collectives& world);
  void add_percentiles(std::map<std::string, double>& metrics, dist::Collectives& world, const Extremes& extremes);

  Sums sums_;
  Extremes extremes_;
  std::vector<std::int64_t> rho_counts_;
  std::map<std::string, Entry> named_;
};

}  // namespace qrl::learner

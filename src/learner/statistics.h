// Owns the statistics of one optimizer mini-batch: sums per micro-batch, their reduction over ranks, the named means.
// Knows nothing of gradients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dist/collectives.h"

namespace qrl::learner {

/// Per-token values of a micro-batch's M counted tokens, all about the drawn token.
struct PolicyTokens {
  std::span<const double> log_probs, old_log_probs, sampler_log_probs, entropy, advantages;
  double clip_low = 0, clip_high = 0;
  std::optional<double> tis_threshold;  ///< none: no truncation statistics
};

/// Sums over the tokens of a mini-batch, in fp64 and in the order given.
class Statistics {
 public:
  void add_policy_tokens(const PolicyTokens& tokens);
  /// A micro-batch's share of a loss term, already divided by global counts: shares add up to the metric `name`.
  void add_share(const std::string& name, double share);

  /// Totals over all ranks as metrics: the shares, and means over response tokens (algorithms.md, Metrics; names as
  /// in veRL where it has one). Every rank must have added the same kinds of things or nothing. Collective.
  std::map<std::string, double> reduce(dist::Collectives& world);

 private:
  struct Sums {
    double tokens = 0, entropy = 0, ppo_kl = 0, clipped_high = 0, clipped_low = 0;
    double k1 = 0, k3 = 0, abs_log_diff = 0, abs_prob_diff = 0;
    double rho = 0, rho_squared = 0, truncated = 0, truncated_squared = 0, capped = 0, has_truncation = 0;
  };
  struct Extremes {
    double max_abs_log_diff = 0, max_rho = 0, negative_min_rho = -1e300;
  };
  void add_percentiles(std::map<std::string, double>& metrics, dist::Collectives& world, const Extremes& extremes);

  Sums sums_;
  Extremes extremes_;
  std::vector<std::int64_t> rho_counts_;  ///< tokens per bin of log ρ
  std::map<std::string, double> shares_;
};

}  // namespace qrl::learner

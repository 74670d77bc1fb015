#include "learner/objective/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "learner/objective/tokens.h"

namespace qrl::learner {

namespace {

// Percentiles of ρ come from integer counts in bins of log ρ, so they do not depend on how tokens are divided over
// ranks. A bin is 1 % wide in |log ρ|. If |log ρ| is at most kSmallestLogRho, ρ counts as 1.
constexpr double kSmallestLogRho = 1e-9, kBinRatio = 1.01;
const int kBinsPerSign = static_cast<int>(std::ceil(std::log(kMaxLogRatio / kSmallestLogRho) / std::log(kBinRatio)));
constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p01", 0.01}, {"p05", 0.05}, {"p50", 0.50}, {"p95", 0.95}, {"p99", 0.99}};

/// Returns the index of log_rho's bin. Bins ascend with log ρ. The middle bin holds values near 0.
std::size_t bin_of(double log_rho) {
  const double size = std::fabs(log_rho);
  if (!(size > kSmallestLogRho)) return static_cast<std::size_t>(kBinsPerSign);
  const int bin = 1 + static_cast<int>(std::log(size / kSmallestLogRho) / std::log(kBinRatio));
  const int offset = std::min(bin, kBinsPerSign);
  return static_cast<std::size_t>(kBinsPerSign + (log_rho < 0 ? -offset : offset));
}

double rho_of(std::size_t bin) {
  const int offset = static_cast<int>(bin) - kBinsPerSign;
  if (offset == 0) return 1;
  const double size = kSmallestLogRho * std::pow(kBinRatio, std::abs(offset) - 0.5);
  return std::exp(offset < 0 ? -size : size);
}

}  // namespace

void Statistics::add_policy_tokens(const PolicyTokens& tokens) {
  rho_counts_.resize(static_cast<std::size_t>(2 * kBinsPerSign + 1));
  for (std::size_t t = 0; t < tokens.log_probs.size(); ++t) {
    const double log_p = tokens.log_probs[t], log_old = tokens.old_log_probs[t], log_mu = tokens.sampler_log_probs[t];
    sums_.tokens += 1;
    sums_.entropy += tokens.entropy[t];
    sums_.ppo_kl += log_old - log_p;

    const double log_rho = std::clamp(log_old - log_mu, -kMaxLogRatio, kMaxLogRatio), rho = std::exp(log_rho);
    const double abs_log_diff = std::fabs(log_old - log_mu);
    ++rho_counts_[bin_of(log_rho)];
    sums_.k1 -= log_rho;
    sums_.k3 += std::expm1(log_rho) - log_rho;
    sums_.abs_log_diff += abs_log_diff;
    sums_.abs_prob_diff += std::fabs(std::exp(log_old) - std::exp(log_mu));
    sums_.rho += rho;
    sums_.rho_squared += rho * rho;
    extremes_.max_abs_log_diff = std::max(extremes_.max_abs_log_diff, abs_log_diff);
    extremes_.max_rho = std::max(extremes_.max_rho, rho);
    extremes_.negative_min_rho = std::max(extremes_.negative_min_rho, -rho);
    sums_.weight += tokens.weights[t];
    sums_.weight_squared += tokens.weights[t] * tokens.weights[t];
  }
}

void Statistics::add(const std::string& name, Entry entry) {
  const auto [found, is_new] = named_.try_emplace(name, entry);
  if (is_new) return;
  Entry& sum = found->second;
  sum.count += entry.count;
  if (entry.kind == Kind::max) sum.value = std::max(sum.value, entry.value);
  else if (entry.kind == Kind::min) sum.value = std::min(sum.value, entry.value);
  else sum.value += entry.value;
}

/// First collects all ranks' names, since a rank without tokens in the loss has none.
std::map<std::string, double> Statistics::reduce_named(dist::Collectives& world) {
  std::string mine;
  for (const auto& [name, entry] : named_) mine += static_cast<char>(entry.kind) + name + '\n';
  std::map<std::string, Kind> all;
  for (const std::string& names : world.all_gather(mine)) {
    for (std::size_t begin = 0, end = 0; begin < names.size(); begin = end + 1) {
      end = names.find('\n', begin);
      all[names.substr(begin + 1, end - begin - 1)] = static_cast<Kind>(names[begin]);
    }
  }
  std::map<std::string, double> metrics;
  for (const auto& [name, kind] : all) {
    const auto found = named_.find(name);
    const bool is_mine = found != named_.end();
    if (kind == Kind::share || kind == Kind::mean) {
      double sums[] = {is_mine ? found->second.value : 0, is_mine ? found->second.count : 0};
      world.all_reduce_sum(std::span<double>(sums));
      if (kind == Kind::share) metrics[name] = sums[0];
      else if (sums[1] > 0) metrics[name] = sums[0] / sums[1];
    } else {
      const double sign = kind == Kind::max ? 1 : -1;
      double extreme = is_mine ? sign * found->second.value : -std::numeric_limits<double>::infinity();
      world.all_reduce_max(std::span<double>(&extreme, 1));
      metrics[name] = sign * extreme;
    }
  }
  return metrics;
}

std::map<std::string, double> Statistics::reduce(dist::Collectives& world) {
  auto sums = std::bit_cast<std::array<double, sizeof(Sums) / sizeof(double)>>(sums_);
  auto extremes = std::bit_cast<std::array<double, sizeof(Extremes) / sizeof(double)>>(extremes_);
  world.all_reduce_sum(std::span<double>(sums));
  world.all_reduce_max(std::span<double>(extremes));
  const auto s = std::bit_cast<Sums>(sums);
  const auto e = std::bit_cast<Extremes>(extremes);

  std::map<std::string, double> metrics = reduce_named(world);
  if (s.tokens == 0) return metrics;

  const double n = s.tokens, rho_mean = s.rho / n;
  metrics["actor/entropy"] = s.entropy / n;
  metrics["actor/ppo_kl"] = s.ppo_kl / n;
  metrics["mismatch/k1_kl"] = s.k1 / n;
  metrics["mismatch/k3_kl"] = s.k3 / n;
  metrics["mismatch/logp_abs_diff_mean"] = s.abs_log_diff / n;
  metrics["mismatch/logp_abs_diff_max"] = e.max_abs_log_diff;
  metrics["mismatch/prob_abs_diff_mean"] = s.abs_prob_diff / n;
  metrics["mismatch/rho_mean"] = rho_mean;
  metrics["mismatch/rho_std"] = std::sqrt(std::max(0.0, s.rho_squared / n - rho_mean * rho_mean));
  metrics["mismatch/rho_min"] = -e.negative_min_rho;
  metrics["mismatch/rho_max"] = e.max_rho;
  add_percentiles(metrics, world, e);
  metrics["mismatch/ess_ratio"] = s.rho * s.rho / (n * s.rho_squared);
  // Weights are all 0 if all tokens are rejected.
  metrics["mismatch/ess_ratio_weights"] = s.weight_squared > 0 ? s.weight * s.weight / (n * s.weight_squared) : 0;
  return metrics;
}

/// Adds nearest-rank percentiles of ρ, whose log is exact to 0.5 %. Collective.
void Statistics::add_percentiles(std::map<std::string, double>& metrics, dist::Collectives& world,
                                 const Extremes& extremes) {
  rho_counts_.resize(static_cast<std::size_t>(2 * kBinsPerSign + 1));
  world.all_reduce_sum(std::span(rho_counts_));
  const auto total = static_cast<double>(std::accumulate(rho_counts_.begin(), rho_counts_.end(), std::int64_t{0}));
  std::size_t bin = 0;
  std::int64_t below = rho_counts_[0];
  for (const auto& [name, share] : kPercentiles) {
    while (static_cast<double>(below) < share * total) below += rho_counts_[++bin];
    // Clamps to the extremes of ρ: a bin's middle may be beyond all values in the bin.
    metrics[std::string("mismatch/rho_") + name] =
        std::clamp(rho_of(bin), -extremes.negative_min_rho, extremes.max_rho);
  }
}

}  // namespace qrl::learner

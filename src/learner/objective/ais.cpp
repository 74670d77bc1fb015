#include "learner/objective/ais.h"

#include <algorithm>
#include <cmath>

#include "dist/collectives.h"
#include "learner/objective/corrections.h"
#include "learner/objective/tokens.h"

namespace qrl::learner {

namespace {

constexpr double kMaxLogRho = 20;

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

AisSignals ais_signals(const AisSums& sums, const AisSettings& settings) {
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
  signals.weight_cv = std::sqrt(cv_squared);
  return signals;
}

namespace {

const config::NumberParam kAisCap{"rollout_correction.ais.C", config::kAtLeast1, 5, "cap on the importance ratios"};
const config::NumberParam kAisDelta{"rollout_correction.ais.delta", config::kPositive, 0.02,
                                    "mean |log ratio| from which the mismatch counts in full"};
const config::NumberParam kAisGamma{"rollout_correction.ais.gamma", config::kPositive, 1.2,
                                    "growth of the advantages' standard deviation above which alpha falls"};
const config::NumberParam kAisBeta{"rollout_correction.ais.beta_var", config::kAtLeast0, 1,
                                   "weight of this growth in alpha"};
const config::NumberParam kAisEps{"rollout_correction.ais.eps", config::kPositive, 1e-6,
                                  "added to the denominator of this growth"};

AisSettings ais_settings(const config::ParamValues& own) {
  return {own.of(kAisCap), own.of(kAisDelta), own.of(kAisGamma), own.of(kAisBeta), own.of(kAisEps)};
}

void read_cap(const config::ParamValues& own, CorrectionSettings& settings) { settings.threshold = own.of(kAisCap); }

/// Weights tokens by 1 + α·(min(ρ_t, C) − 1) (AIS, §3).
CorrectionWeights adaptive_importance(const torch::Tensor& log_rho, const Sequences&,
                                      const CorrectionSettings& settings) {
  const torch::Tensor rho = log_rho.exp();
  return {1 + settings.blend * (rho.clamp_max(settings.threshold) - 1), rho > settings.threshold, {}, false};
}

Metrics prepare_blend(std::span<const types::MicroBatch* const> batches, LossOptions& loss, dist::Collectives& world) {
  const AisSettings settings = ais_settings(loss.own);
  AisSums sums;
  for (const types::MicroBatch* one : batches) {
    const types::MicroBatch& batch = *one;
    const std::vector<std::int64_t> rows = counted_rows(batch);
    const auto read = [&](const std::vector<float>& per_token, const char* name) {
      return counted(per_token, rows, batch.tokens.size(), name);
    };
    const AisSums part =
        ais_sums(read(batch.old_logprobs, "old_logprobs"), read(batch.sampler_logprobs, "sampler_logprobs"),
                 read(batch.advantages, "advantages"), settings.cap);
    for (const auto& member : kAisSums) sums.*member += part.*member;
  }
  std::vector<double> totals;
  for (const auto& member : kAisSums) totals.push_back(sums.*member);
  world.all_reduce_sum(std::span<double>(totals));
  for (std::size_t i = 0; i < totals.size(); ++i) sums.*kAisSums[i] = totals[i];
  const AisSignals signals = ais_signals(sums, settings);
  loss.blend = signals.alpha;
  return {{"ais/alpha", signals.alpha},
          {"ais/alpha_ess", signals.alpha_ess},
          {"ais/alpha_mis", signals.alpha_mis},
          {"ais/alpha_var", signals.alpha_var},
          {"ais/d_bar", signals.mean_abs_log_rho},
          {"ais/sigma_ratio", signals.sigma_ratio},
          {"ais/weight_cv", signals.weight_cv}};
}

}  // namespace

extern const Correction ais_correction;
const Correction ais_correction{
    {.word = "ais",
     .what = "truncated importance sampling, blended in according to the ratios' reliability",
     .paper = "AIS, §3",
     .constraints = constraints_of_correction("set its cap with rollout_correction.ais.C instead", true),
     .params = {kAisCap, kAisDelta, kAisGamma, kAisBeta, kAisEps},
     .aliases = {{"gamma", "rollout_correction.ais.gamma",
                  "for AIS; there is no discount factor, because there is no critic", "hint"}}},
    CorrectionLevel::token,
    adaptive_importance,
    read_cap,
    nullptr,
    prepare_blend};

}  // namespace qrl::learner

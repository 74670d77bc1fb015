#pragma once

#include <span>

namespace qrl::learner {

struct AisSettings {
  double cap = 5;  ///< C, the cap of ρ
  double delta = 0.02, gamma = 1.2, beta_var = 1, eps = 1e-6;
};

/// Holds sums over response tokens. w is min(ρ, C), which the paper calls w̄. a is the advantage A.
struct AisSums {
  double tokens = 0, w = 0, w_squared = 0, a = 0, a_squared = 0, aw = 0, aw_squared = 0, abs_log_rho = 0;
};

inline constexpr double AisSums::*kAisSums[] = {&AisSums::tokens,     &AisSums::w,          &AisSums::w_squared,
                                                &AisSums::a,          &AisSums::a_squared,  &AisSums::aw,
                                                &AisSums::aw_squared, &AisSums::abs_log_rho};

struct AisSignals {
  double alpha = 0, alpha_ess = 0, alpha_mis = 0, alpha_var = 0;
  double mean_abs_log_rho = 0;  ///< d̄
  double sigma_ratio = 0;       ///< Δσ
  double weight_cv = 0;         ///< CV(w̄)
};

/// Clamps log ρ to ±20.
AisSums ais_sums(std::span<const double> old_log_probs, std::span<const double> sampler_log_probs,
                 std::span<const double> advantages, double cap);

/// Computes α, AIS's blending coefficient. α_ess = (1 + CV²(w̄))^(−1/2), d̄ = mean |log ρ|, α_mis = min(1, d̄/δ),
/// Δσ = std(A·w̄)/(std(A) + eps), α_var = max(0, (Δσ − γ)/γ), α = clip(α_ess − β_var·α_var, 0, 1)·α_mis. Without
/// tokens, all are 0. Uses population variances (paper: sample variances).
AisSignals ais_signals(const AisSums& sums, const AisSettings& settings);

}  // namespace qrl::learner

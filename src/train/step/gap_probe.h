#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "learner/learner.h"
#include "train/files/run_folder.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Accumulates statistics of the sampler-learner gap over tokens in fp64: d is the learner's minus the sampler's
/// log-prob, ρ = exp(d). NaN propagates.
class GapSums {
 public:
  void add(double learner_logprob, double sampler_logprob);

  std::int64_t count() const { return count_; }
  double k1() const;        ///< mean of −d
  double k3() const;        ///< mean of ρ − 1 − d
  double mean_abs() const;  ///< mean of |d|
  double max_abs() const { return max_abs_; }
  double ess() const;             ///< effective sample size as a share: (Σρ)² / (count · Σρ²)
  double share_beyond_2() const;  ///< share of tokens with ρ above 2

 private:
  std::int64_t count_ = 0, beyond_2_ = 0;
  double sum_ = 0, k3_ = 0, abs_ = 0, max_abs_ = 0, rho_ = 0, rho_squared_ = 0;
};

struct ProbeSize {
  std::int32_t num_prompts, num_samples, num_tokens;  ///< samples of a prompt, tokens of a sample
};
/// Is the size of a step's probe. Chosen so that the probe detects a broken publish but takes at most 1 % of a step
/// (gap_probe_share of `bench step`).
inline constexpr ProbeSize kStepProbe{2, 2, 16};
/// Is the size of the probe before step 1 of a real model: 1,024 tokens.
inline constexpr ProbeSize kFirstProbe{16, 2, 32};

/// Returns prompts for a probe, selected by the seed. Every rank and publish gets the same prompts.
std::vector<types::SampleRequest> probe_requests(const PromptSet& prompts, std::uint64_t seed,
                                                 const ProbeSize& size = kStepProbe);

/// Samples tokens for each request and scores them with the learner. Both use the weights last published. Returns
/// mismatch/probe_{k1_kl,k3_kl,logp_abs_diff_mean,logp_abs_diff_max}.
Metrics probe_gap(Sampler& sampler, learner::Learner& learner, std::span<const types::SampleRequest> requests,
                  const Recipe& recipe, const types::SamplingParams& sampling, const ProbeSize& size = kStepProbe);

/// Ends the run (exit 3) or warns, per gap_limit.action, if the probe's k3 KL is NaN or exceeds gap_limit.k3_kl.
void check_gap(const Metrics& probe, const CorrectionRecipe& recipe);

}  // namespace qrl::train

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/files/run_folder.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"

namespace qrl::train {

/// Returns a few prompts for the probe, selected by the seed, equal on every rank and publish.
std::vector<types::SampleRequest> probe_requests(const PromptSet& prompts, std::uint64_t seed);

/// Samples a few tokens per request and scores them with the learner, at the weights last published. Returns
/// mismatch/probe_{k1_kl,k3_kl,logp_abs_diff_mean,logp_abs_diff_max}. Does not change the run's results.
Metrics probe_gap(Sampler& sampler, learner::Learner& learner, std::span<const types::SampleRequest> requests,
                  const config::Recipe& recipe, const types::SamplingParams& sampling);

/// Ends the run (exit 3) or warns if the probe's k3 KL exceeds rollout_correction.gap_limit or is NaN.
void check_gap(const Metrics& probe, const config::CorrectionRecipe& recipe);

}  // namespace qrl::train

// Owns the check after each publish that sampler and learner still agree. Knows nothing of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/run_folder.h"
#include "train/session.h"

namespace qrl::train {

/// Returns the few prompts of the run that the probe samples for, fixed by the seed: the same on every rank and at
/// every publish.
std::vector<types::SampleRequest> probe_requests(const PromptSet& prompts, std::uint64_t seed);

/// Samples a few tokens for each request and scores them by the learner, both at the weights last published. Returns
/// mismatch/probe_{k1_kl,k3_kl,logp_abs_diff_mean,logp_abs_diff_max}. The run's bits do not change.
Metrics probe_gap(Sampler& sampler, learner::Learner& learner, std::span<const types::SampleRequest> requests,
                  const config::Recipe& recipe, const types::SamplingParams& sampling);

/// Ends the run (exit 3) or warns when the probe's k3 KL is beyond rollout_correction.gap_limit, or not a number.
void check_gap(const Metrics& probe, const config::CorrectionRecipe& recipe);

}  // namespace qrl::train

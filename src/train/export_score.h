// Owns the score of what a run leaves behind: the trained weights as an export has them, not the sampler's quantized
// ones. Knows nothing of how the run went.
#pragma once

#include "learner/learner.h"
#include "train/run_setup.h"

namespace qrl::train {

inline constexpr const char* kExportScoreFile = "export_score.json";  ///< in a run's folder

/// Returns greedy scores (one response a prompt) of the learner's weights, rounded to the dtype of the export: fp32
/// compute on the CPU, bf16 on a GPU. Reads them from the run folder's export_score.json if that is of step `step`,
/// else measures and writes them. Returns a line per held-out set, for the end of a run; empty on all ranks but the
/// first. Collective. Throws Abandoned if a rank got a stop request.
std::vector<std::string> export_score_lines(const RunSetup& setup, std::int64_t step, const learner::Learner& learner);

}  // namespace qrl::train

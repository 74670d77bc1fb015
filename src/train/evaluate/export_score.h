#pragma once

#include "learner/learner.h"
#include "train/run_plan.h"

namespace qrl::train {

inline constexpr const char* kExportScoreFile = "export_score.json";  ///< in a run's folder

/// Returns greedy scores (one response a prompt) of weights rounded to the export's dtype, computed in fp32 on the CPU,
/// bf16 on a GPU. Reads them from the run folder's export_score.json if it is of `step`, otherwise measures and writes
/// them. Returns a line per held-out set, on the first rank alone. Collective. Throws Cancelled if a rank got a stop
/// request.
std::vector<std::string> export_score_lines(const RunContext& run, std::int64_t step, const learner::Learner& learner);

}  // namespace qrl::train

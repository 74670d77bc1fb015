#pragma once

#include <filesystem>
#include <string>

#include "learner/learner.h"
#include "train/run_plan.h"

namespace qrl::train {

inline constexpr const char* kExportScoreFile = "export_score.json";

/// Returns the exported model's greedy scores, one line per held-out set, on the first rank only. Weights are rounded
/// to the export's dtype. Matmuls run in fp32 on the CPU, in bf16 on a GPU. Reuses the run folder's export_score.json
/// if it has the same step and held-out prompts; otherwise evaluates and writes it. Collective. Throws Cancelled.
std::vector<std::string> export_score_lines(const RunContext& run, std::int64_t step, const learner::Learner& learner);

struct KnownScores {
  std::string weights;    ///< description of the sampler's formats (policy_text)
  std::string scores;     ///< scores at the checkpoint's step, such as "countdown mean@2 0.250", or ""
  std::string of_export;  ///< scores of the exported model, such as "countdown 0.281 (computed in fp32, greedy)", or ""

  std::string text() const { return weights + (scores.empty() ? "" : ", which scored " + scores); }
};

/// Reads a checkpoint's recipe. Also reads metrics.jsonl and export_score.json of its run folder, if present.
KnownScores known_scores(const std::filesystem::path& checkpoint);

}  // namespace qrl::train

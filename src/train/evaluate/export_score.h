#pragma once

#include <filesystem>
#include <string>

#include "learner/learner.h"
#include "train/run_plan.h"

namespace qrl::train {

inline constexpr const char* kExportScoreFile = "export_score.json";  ///< in a run's folder

/// Returns greedy scores (one response a prompt) of weights rounded to the export's dtype, computed in fp32 on the CPU,
/// bf16 on a GPU. Reads them from the run folder's export_score.json if it is of `step`, otherwise measures and writes
/// them. Returns a line per held-out set, on the first rank alone. Collective. Throws Cancelled.
std::vector<std::string> export_score_lines(const RunContext& run, std::int64_t step, const learner::Learner& learner);

struct KnownScores {
  std::string weights;    ///< the run's sampled weights (policy_text)
  std::string scores;     ///< at the checkpoint's step, "countdown mean@2 0.250", or ""
  std::string of_export;  ///< of the exported model, "countdown 0.281 (fp32, greedy)", or ""

  /// Returns "int8 weights with int8 keys and values, which scored countdown mean@2 0.250", for example.
  std::string text() const { return weights + (scores.empty() ? "" : ", which scored " + scores); }
};

/// Reads a checkpoint's recipe and its run folder's metrics.jsonl and export_score.json, if they exist.
KnownScores known_scores(const std::filesystem::path& checkpoint);

}  // namespace qrl::train

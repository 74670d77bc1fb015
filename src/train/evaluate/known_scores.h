#pragma once

#include <filesystem>
#include <string>

namespace qrl::train {

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

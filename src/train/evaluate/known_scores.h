// Owns a checkpoint's known scores: its run's sampled weights, and what those and the export scored.
#pragma once

#include <filesystem>
#include <string>

namespace qrl::train {

struct KnownScores {
  std::string weights;    ///< what the run sampled, as policy_text
  std::string scores;     ///< at the checkpoint's step, "countdown mean@2 0.250"; may be empty
  std::string of_export;  ///< of the exported model, "countdown 0.281 (fp32, greedy)"; may be empty

  /// Returns e.g. "int8 weights with int8 keys and values, which scored countdown mean@2 0.250".
  std::string text() const { return weights + (scores.empty() ? "" : ", which scored " + scores); }
};

/// Reads the recipe of a checkpoint and its run folder's metrics.jsonl and export_score.json, if any.
KnownScores known_scores(const std::filesystem::path& checkpoint);

}  // namespace qrl::train

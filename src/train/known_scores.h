// Owns what is known of a checkpoint's scores: which weights its run sampled, and what those and the export scored.
// Knows nothing of sampling.
#pragma once

#include <filesystem>
#include <string>

namespace qrl::train {

struct KnownScores {
  std::string weights;    ///< what the run sampled: "int8 weights with int8 keys and values"
  std::string scores;     ///< of those at the checkpoint's step, "countdown mean@2 0.250"; empty where none is known
  std::string of_export;  ///< of the exported model, "countdown 0.281 (fp32, greedy)"; empty where none is known

  /// Returns e.g. "int8 weights with int8 keys and values, which scored countdown mean@2 0.250".
  std::string text() const { return weights + (scores.empty() ? "" : ", which scored " + scores); }
};

/// Reads a checkpoint's recipe, and in its run's folder, where it lies in one, metrics.jsonl and export_score.json.
KnownScores known_scores(const std::filesystem::path& checkpoint);

}  // namespace qrl::train

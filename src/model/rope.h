// Owns rotary positions: the frequencies that a config asks for. Knows nothing of attention.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"

namespace qrl::model {

struct ModelConfig;

enum class RopeType : std::uint8_t { plain, llama3, yarn };

/// How positions beyond a model's first training are reached, as rope_scaling (transformers 4) or rope_parameters (5)
/// of config.json say it.
struct RopeScaling {
  RopeType type = RopeType::plain;
  double factor = 1;                                  ///< 1 or more
  std::int64_t original_max_position_embeddings = 0;  ///< positions of that first training
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 32, beta_slow = 1;               ///< yarn
  std::optional<double> attention_factor;             ///< yarn; default from factor, or from the two below
  std::optional<double> mscale, mscale_all_dim;       ///< yarn
  bool truncate = true;                               ///< yarn: bounds at whole dimensions
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

struct RopeFrequencies {
  std::vector<double> inverse;  ///< radians a position, of each of the head_dim / 2 pairs
  double attention_factor = 1;  ///< what cosines and sines are multiplied by
};

/// llama3: as transformers has Meta's rule (long wavelengths divided by factor, short ones kept, those between in
/// proportion). yarn: Peng et al. 2023, "YaRN", section 3.2 (NTK-by-parts) and 3.4 (the factor of attention,
/// 0.1·ln(factor) + 1).
RopeFrequencies rope_frequencies(const ModelConfig& config);

/// Cosines and sines of positions 0 … max_positions − 1 for both the decoder and the learner, as ops::make_rope_table
/// lays them out.
base::Buffer make_rope_table(const ModelConfig& config, std::int64_t max_positions);

}  // namespace qrl::model

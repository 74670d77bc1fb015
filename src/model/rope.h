// Owns rotary positions: a config's frequencies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"

namespace qrl::model {

struct ModelConfig;

enum class RopeType : std::uint8_t { plain, llama3, yarn };

/// Extends positions beyond the training length: config.json's rope_scaling (transformers 4) or rope_parameters (5).
struct RopeScaling {
  RopeType type = RopeType::plain;
  double factor = 1;                                  ///< 1 or more
  std::int64_t original_max_position_embeddings = 0;  ///< the original training's positions
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 32, beta_slow = 1;               ///< yarn
  std::optional<double> attention_factor;        ///< yarn; default: from mscale and mscale_all_dim, else from factor
  std::optional<double> mscale, mscale_all_dim;  ///< yarn
  bool truncate = true;                          ///< yarn: round bounds to whole dimensions
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

struct RopeFrequencies {
  std::vector<double> inverse;  ///< radians per position, for each of head_dim / 2 pairs
  double attention_factor = 1;  ///< factor of cosines and sines
};

/// Computes a config's frequencies. llama3: Meta's rule as in transformers. Long wavelengths are divided by factor,
/// short ones kept, others interpolated. yarn: Peng et al. 2023, "YaRN", sections 3.2 (NTK-by-parts) and 3.4 (attention
/// factor 0.1·ln(factor) + 1).
RopeFrequencies rope_frequencies(const ModelConfig& config);

/// Laid out as by ops::make_rope_table.
base::Buffer make_rope_table(const ModelConfig& config, std::int64_t max_positions);

}  // namespace qrl::model

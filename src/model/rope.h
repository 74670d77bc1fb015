// Owns rotary positions: the frequencies that a config determines.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"

namespace qrl::model {

struct ModelConfig;

enum class RopeType : std::uint8_t { plain, llama3, yarn };

/// Extension of positions beyond the original training length: rope_scaling (transformers 4) or rope_parameters (5) of
/// config.json.
struct RopeScaling {
  RopeType type = RopeType::plain;
  double factor = 1;                                  ///< 1 or more
  std::int64_t original_max_position_embeddings = 0;  ///< positions of the original training
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

/// Computes the frequencies of a config. llama3: Meta's rule as in transformers. Long wavelengths are divided by
/// factor, short ones kept, those between interpolated. yarn: Peng et al. 2023, "YaRN", sections 3.2 (NTK-by-parts) and
/// 3.4 (attention factor 0.1·ln(factor) + 1).
RopeFrequencies rope_frequencies(const ModelConfig& config);

/// Laid out as by ops::make_rope_table; used by decoder and learner.
base::Buffer make_rope_table(const ModelConfig& config, std::int64_t max_positions);

}  // namespace qrl::model

#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "model/config.h"

namespace qrl::model {

struct RopeFrequencies {
  std::vector<double> inverse;  ///< radians per position, for each of rotary_dim / 2 pairs
  double attention_factor = 1;  ///< multiplied into cosines and sines
};

/// Computes a config's rotary frequencies. llama3 divides low frequencies by `factor`, keeps high frequencies and
/// interpolates between them, as in transformers. yarn: Peng et al. 2023, "YaRN", sections 3.2 (NTK-by-parts) and 3.4
/// (attention factor 0.1·ln(factor) + 1). longrope: Ding et al. 2024, "LongRoPE", with the
/// factors of texts up to the original length. Its attention factor is √(1 + ln(ratio of lengths) / ln(original)).
RopeFrequencies rope_frequencies(const ModelConfig& config, RopeKind kind = RopeKind::common);

/// Holds a model's rotary tables, [max_positions, rotary_dim] each: that of most layers, and that of sliding layers if
/// it differs.
class RopeTables {
 public:
  RopeTables() = default;
  RopeTables(const ModelConfig& config, std::int64_t max_positions);
  /// Returns a kind's table; for none, a table without columns.
  base::View of(RopeKind kind) const;
  std::int64_t max_positions() const { return tables_.empty() ? 0 : tables_.front().shape()[0]; }

 private:
  std::vector<base::Buffer> tables_;  ///< in the order of ModelConfig::ropes
};

}  // namespace qrl::model

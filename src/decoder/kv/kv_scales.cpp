#include "decoder/kv/kv_scales.h"

#include <algorithm>
#include <cmath>

#include "quant/fp8.h"

namespace qrl::decoder {

std::int64_t num_above_percentile(std::int64_t count, double percentile) {
  const auto rank = static_cast<std::int64_t>(std::ceil(percentile / 100 * static_cast<double>(count)));
  return count - std::clamp<std::int64_t>(rank, 1, count);
}

float kv_scale(float percentile, const KvCalibration& options) {
  const auto scale = static_cast<float>(percentile * options.margin / quant::kFp8Max);
  return scale > 0 ? scale : 1.0F;
}

}  // namespace qrl::decoder

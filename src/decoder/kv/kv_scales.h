#pragma once

#include <cstdint>
#include <vector>

namespace qrl::decoder {

/// Holds one policy version's fp32 scales. Keys and values are divided by their scales before rounding to e4m3.
struct KvScales {
  std::int64_t version = -1;
  std::vector<float> keys_LK, values_LK;  ///< [layers with attention, kv heads]
  std::vector<float> queries_LK = {};     ///< of the same shape, scales of the heads' queries; empty: queries stay bf16
  double saturated_fraction = 0;          ///< share of calibration keys and values beyond e4m3's range
};

struct KvCalibration {
  double percentile = 99.9;  ///< percentile of |value|, in (0, 100], over all positions and elements of a head
  double margin = 2;         ///< factor on the percentile, above 0: headroom beyond the calibration prompts
  bool queries = false;      ///< whether queries also have scales; CPU only
};

/// Returns how many of `count` values exceed their nearest-rank percentile; `percentile` is in (0, 100].
std::int64_t num_above_percentile(std::int64_t count, double percentile);
/// Returns the scale for a percentile of |values|: percentile · margin / 448, or 1 instead of 0.
float kv_scale(float percentile, const KvCalibration& options);

}  // namespace qrl::decoder

// Owns the calibration of fp8 scales of keys and values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// fp32 scales of one policy version. A key or value is divided by its scale before it is rounded to e4m3.
struct KvScales {
  std::int64_t version = -1;
  std::vector<float> keys_LK, values_LK;  ///< [layers, kv heads]
  std::vector<float> queries_LK = {};  ///< [layers, kv heads], for the queries of a kv head; empty: queries stay bf16
  double saturated_fraction = 0;       ///< fraction of the calibration's keys and values beyond e4m3's range
};

struct KvCalibration {
  double percentile = 99.9;  ///< (0, 100]: over |value| of all positions and elements of a head
  double margin = 2;         ///< factor above 0: headroom for values beyond the calibration prompts
  bool queries = false;      ///< also calibrate scales of queries; CPU only
};

/// Returns how many of `count` values are above their percentile by nearest rank. percentile: (0, 100].
std::int64_t num_above_percentile(std::int64_t count, double percentile);
/// Returns the scale for a percentile of |values|: percentile · margin / 448, or 1 where that is 0.
float kv_scale(float percentile, const KvCalibration& options);

/// Runs `snapshot` over each sequence with fp32 keys and values, and computes kv_scale for each layer and kv head. The
/// method is FP8-RL's (algorithms.md); percentile and margin are our choice. The result does not depend on the number
/// of threads or ranks. Throws an input error for no sequence; keys or values that are not finite throw by
/// model::fail_broken.
KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options);

}  // namespace qrl::decoder

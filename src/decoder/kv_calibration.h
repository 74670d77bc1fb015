// Owns how the scales of fp8 keys and values are found. Knows nothing of where the calibration prompts come from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// fp32 scales of one policy version: what a key or value is divided by before it becomes an e4m3 value.
struct KvScales {
  std::int64_t version = -1;
  std::vector<float> keys_LK, values_LK;  ///< [layers, kv heads]
  std::vector<float> queries_LK = {};     ///< likewise, one of a kv head's queries; empty: queries stay bf16
  double saturated_fraction = 0;          ///< of the keys and values that they were made from: beyond e4m3's range
};

struct KvCalibration {
  double percentile = 99.9;  ///< (0, 100]: of |value| over all positions and elements of a head
  double margin = 2;         ///< above 0: room for values that these prompts do not show
  bool queries = false;      ///< scales of queries, too; not of a decoder on a GPU
};

/// How many of `count` values are larger than their percentile by the nearest rank; percentile in (0, 100].
std::int64_t num_above_percentile(std::int64_t count, double percentile);
/// The scale for a percentile of |values|.
float kv_scale(float percentile, const KvCalibration& options);

/// Runs `snapshot` over each sequence (fp32 keys and values, nothing sampled) and gives, for each layer and kv head,
/// scale = percentile of |values| · margin / 448; 1 where that is 0. FP8-RL (see algorithms.md): percentile and margin
/// are our choice. The same on any number of threads and ranks for the same sequences. Throws an input error when there
/// is no sequence, or when keys or values are not finite.
KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options);

}  // namespace qrl::decoder

#pragma once

#include <span>
#include <vector>

#include "decoder/kv/kv_scales.h"
#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Runs `snapshot` over the sequences with fp32 keys and values. Returns kv_scale for each layer and kv head, by
/// FP8-RL's method (algorithms.md); percentile and margin are this project's. Results do not depend on threads or
/// ranks. Throws an input error for no sequence, and model::fail_broken's error for values that are not finite.
KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options);

}  // namespace qrl::decoder

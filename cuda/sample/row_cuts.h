#pragma once

#include <cstdint>

#include "cuda/runtime/portable.h"

namespace qrl::cuda {

/// Largest number of tokens that a row sampled on the device can keep with top-k and top-p, and its largest vocabulary.
/// More would not fit the shared memory of all supported devices.
inline constexpr std::int32_t kMostKept = 256;
inline constexpr std::int64_t kMostCutVocabulary = 384 << 10;

/// Describes top-k and top-p of a row that the device samples, and the largest number of tokens that it keeps.
struct RowCuts {
  float top_p = 1;
  std::int32_t top_k = 0;     ///< below the vocabulary's size; 0: off
  std::int32_t max_kept = 0;  ///< at most kMostKept; 0: the row has no cuts
  QRL_HD bool cuts() const { return max_kept != 0; }
};

/// Returns whether the device can sample a row with these cuts, as ops/sample.h does. It finds the likeliest kMostKept
/// tokens: no more may be kept, and with top-k and top-p, top-k may not leave more to top-p. max_kept 0: no limit.
constexpr bool device_can_cut(float top_p, std::int64_t top_k, std::int64_t max_kept, std::int64_t vocab_size) {
  const bool by_count = 0 < top_k && top_k < vocab_size;
  const std::int64_t left = by_count ? top_k : vocab_size, most = 0 < max_kept && max_kept < left ? max_kept : left;
  return vocab_size <= kMostCutVocabulary && most <= kMostKept && (!by_count || top_p >= 1 || top_k <= kMostKept);
}

/// Returns a row's cuts, for which device_can_cut must hold.
constexpr RowCuts row_cuts(float top_p, std::int64_t top_k, std::int64_t max_kept, std::int64_t vocab_size) {
  const bool by_count = 0 < top_k && top_k < vocab_size;
  return {top_p, by_count ? static_cast<std::int32_t>(top_k) : 0,
          0 < max_kept && max_kept < kMostKept ? static_cast<std::int32_t>(max_kept) : kMostKept};
}

}  // namespace qrl::cuda

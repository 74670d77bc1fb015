#pragma once

#include "cuda/runtime/layout.h"
#include "cuda/runtime/portable.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

inline constexpr int kThreads = kRowThreads;
inline constexpr int kWarps = kThreads / 32;

template <int kBlockWarps>
QRL_DEVICE float sum_of_warps(const float* exchange) {
  float total = 0;
  if constexpr (kBlockWarps == 32) {
    total = warp_sum(exchange[lane_idx()]);
  } else {
    for (int warp = 0; warp < kBlockWarps; ++warp) total += exchange[warp];
  }
  sync_block();
  return total;
}

/// block_sum returns the sum of the block's values to every thread, added in fp32 in a fixed order. block_max returns
/// the largest value. exchange: [kBlockWarps].
template <int kBlockWarps = kWarps>
QRL_DEVICE float block_sum(float value, float* exchange) {
  value = warp_sum(value);
  if (lane_idx() == 0) exchange[warp_idx()] = value;
  sync_block();
  return sum_of_warps<kBlockWarps>(exchange);
}
/// Emulates block_sum of a block of kCount · kBlockWarps warps, with the same bits. values[i] is this thread's value as
/// a thread of their i-th group of kBlockWarps warps. exchange: [kCount · kBlockWarps].
template <int kBlockWarps, int kCount>
QRL_DEVICE float block_sum(const float (&values)[kCount], float* exchange) {
  float sums[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = warp_sum(values[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (lane_idx() == 0) exchange[i * kBlockWarps + warp_idx()] = sums[i];
  }
  sync_block();
  return sum_of_warps<kBlockWarps * kCount>(exchange);
}
template <int kBlockWarps = kWarps>
QRL_DEVICE std::uint32_t block_max(std::uint32_t value, float* exchange) {
  value = warp_max(value);
  if (lane_idx() == 0) exchange[warp_idx()] = float_of(value);
  sync_block();
  std::uint32_t largest = 0;
  if constexpr (kBlockWarps == 32) {
    largest = warp_max(bits_of(exchange[lane_idx()]));
  } else {
    for (int warp = 0; warp < kBlockWarps; ++warp) {
      const std::uint32_t other = bits_of(exchange[warp]);
      largest = other > largest ? other : largest;
    }
  }
  sync_block();
  return largest;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

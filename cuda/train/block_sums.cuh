#pragma once

#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Returns to every thread the sum of the warps' sums, added in order, through `exchange` [kWarps].
template <int kWarps>
QRL_DEVICE double block_sum_f64(double value, double* exchange) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (thread_idx() % 32 == 0) exchange[thread_idx() / 32] = value;
  sync_block();
  double total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += exchange[warp];
  sync_block();
  return total;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

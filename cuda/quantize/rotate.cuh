#pragma once

#include "cuda/quantize/row_quads.cuh"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Rotates 128 adjacent numbers, four in each lane of a warp, with the bits of quant::rotate. All lanes must call it.
/// No-op without a rotation.
QRL_DEVICE void rotate_quad(const RowRotation& rotation, Quad& quad) {
  if (rotation.block == 0) return;
  const float low = quad.at[0] + quad.at[1], high = quad.at[2] + quad.at[3];
  const float low_apart = quad.at[0] - quad.at[1], high_apart = quad.at[2] - quad.at[3];
  quad = {{low + high, low_apart + high_apart, low - high, low_apart - high_apart}};
  for (int mask = 1; 4 * mask < rotation.block; mask *= 2) {
    const bool is_upper = (lane_idx() & mask) != 0;
#pragma unroll
    for (float& number : quad.at) {
      const float other = shuffle_xor(number, mask);
      number = is_upper ? other - number : number + other;
    }
  }
#pragma unroll
  for (float& number : quad.at) number *= rotation.scale;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

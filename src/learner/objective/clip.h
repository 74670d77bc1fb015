#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Computes min(R·A, clip(R, low, high)·A), all of one shape. At a bound, the gradient is that of the inside.
inline torch::Tensor clipped_objective(const torch::Tensor& ratio, const torch::Tensor& advantages,
                                       const torch::Tensor& low, const torch::Tensor& high) {
  return torch::minimum(ratio * advantages, ratio.clamp(low, high) * advantages);
}

/// Returns the active bound, as detached uint8 ClipSide of the ratio's shape.
inline torch::Tensor clip_sides(const torch::Tensor& ratio, const torch::Tensor& advantages, const torch::Tensor& low,
                                const torch::Tensor& high) {
  torch::Tensor side = torch::zeros(ratio.sizes(), torch::kUInt8);
  side.masked_fill_((advantages > 0) & (ratio > high), static_cast<int>(ClipSide::high));
  side.masked_fill_((advantages < 0) & (ratio < low), static_cast<int>(ClipSide::low));
  return side;
}

}  // namespace qrl::learner

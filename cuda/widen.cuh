// Owns how codes of eight and four bits become the matrix units' bf16 numbers, two at a time, in registers.
#pragma once

#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Four e4m3 codes as bf16, exact: numbers 0 and 2, then 1 and 3. Exponent and significand
/// in their place are the number times 2^-120, subnormal numbers too. A NaN becomes 480: its scale is NaN.
QRL_DEVICE void widen_fp8(std::uint32_t word, std::uint32_t& pair_02, std::uint32_t& pair_13) {
  constexpr std::uint32_t k2To120 = 0x7b807b80U, kMinusZero = 0x80008000U;
  const std::uint32_t odd = ((word >> 4) & 0x07f007f0U) | (word & 0x80008000U);
  const std::uint32_t even = ((word << 4) & 0x07f007f0U) | ((word << 8) & 0x80008000U);
  pair_02 = fma_bf16x2(even, k2To120, kMinusZero);
  pair_13 = fma_bf16x2(odd, k2To120, kMinusZero);
}

/// Eight int4 codes as four pairs of bf16, exact: 8 + code in the last bits of 128 is 136 + code.
QRL_DEVICE void widen_int4(std::uint32_t word, std::uint32_t* pairs) {
  constexpr std::uint32_t kOne = 0x3f803f80U, kMinus136 = 0xc308c308U;
#pragma unroll
  for (int j = 0; j < 4; ++j) pairs[j] = fma_bf16x2(((word >> (4 * j)) & 0x000f000fU) ^ 0x43084308U, kOne, kMinus136);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

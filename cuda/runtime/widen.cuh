#pragma once

#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Converts four e4m3 values to fp16, exactly, including NaN. Before compute capability 8.9, shifts the bits into
/// fp16's fields. This gives 2^-8 times the number, even for subnormals, so it then multiplies by 2^8.
QRL_DEVICE void widen_fp8(std::uint32_t word, std::uint32_t& pair_01, std::uint32_t& pair_23) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(pair_01), "=r"(pair_23)
      : "r"(word));
#else
  constexpr std::uint32_t k2To8 = 0x5c005c00U, kMinusZero = 0x80008000U;
  const auto widened = [](std::uint32_t quantized) {  // `quantized`: e4m3 in each half's upper byte
    std::uint32_t number = ((quantized >> 1) & 0x3f803f80U) | (quantized & 0x80008000U);
    number |= (number + 0x00800080U) & 0x40004000U;
    return fma_f16x2(number, k2To8, kMinusZero);
  };
  pair_01 = widened(pick_bytes(word, 0, 0x1404));
  pair_23 = widened(pick_bytes(word, 0, 0x3424));
#endif
}

/// Converts eight int4 values to four pairs of bf16 or fp16, exactly. Puts value + 8 into the low mantissa bits of 128
/// (bf16) or 1,024 (fp16), then subtracts 136 or 1,032.
template <bool to_f16>
QRL_DEVICE void widen_int4(std::uint32_t word, std::uint32_t* pairs) {
  constexpr std::uint32_t kBase = to_f16 ? 0x64086408U : 0x43084308U, kOne = to_f16 ? 0x3c003c00U : 0x3f803f80U,
                          kMinusBase = to_f16 ? 0xe408e408U : 0xc308c308U;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t number = mask_flip(word >> (4 * j), 0x000f000fU, kBase);
    pairs[j] = to_f16 ? fma_f16x2(number, kOne, kMinusBase) : fma_bf16x2(number, kOne, kMinusBase);
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

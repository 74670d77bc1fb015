// Owns conversions of single numbers, on device and host, bitwise equal to base/bf16.h and quant/fp8.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define QRL_HD __host__ __device__
#else
#define QRL_HD
#endif

namespace qrl::cuda {

QRL_HD inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
QRL_HD inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline constexpr std::uint32_t kInfinityBits = 0x7f800000;
inline constexpr std::uint32_t kNanBits = 0x7fc00000;

/// Returns the bits of |value|. As integers, they are ordered like |value|, and NaN is above infinity.
QRL_HD inline std::uint32_t magnitude_of(float value) { return bits_of(value) & 0x7fffffffU; }

QRL_HD inline bool is_finite(double value) { return value - value == 0; }

QRL_HD inline float float_of_bf16(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }
/// Rounds to nearest even; NaN stays NaN.
QRL_HD inline std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffU) > kInfinityBits) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Computes quant/fp8.h's quantize_fp8: nearest even, saturated at ±448; NaN stays NaN.
QRL_HD inline std::uint8_t fp8_of(float value) {
  const std::uint32_t sign = (bits_of(value) >> 24) & 0x80U;
  const std::uint32_t size = magnitude_of(value);
  if (size > kInfinityBits) return static_cast<std::uint8_t>(sign | 0x7fU);
  if (size >= 0x43e00000U) return static_cast<std::uint8_t>(sign | 0x7eU);  // 448 and above
  if (size < 0x3c800000U) {                                                 // below 2⁻⁶: steps of 2⁻⁹
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(rintf(float_of(size) * 512.0F)));
  }
  const std::uint32_t rounded = size + 0x7ffffU + ((size >> 20) & 1U);
  const std::uint32_t shifted = (rounded >> 20) - (120U << 3);
  return static_cast<std::uint8_t>(sign | (shifted > 0x7eU ? 0x7eU : shifted));
}
QRL_HD inline float float_of_fp8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24, size = bits & 0x7fU;
  if (size == 0x7fU) return float_of(sign | kNanBits);
  if (size < 8U) return float_of(sign | bits_of(static_cast<float>(size) * (1.0F / 512.0F)));
  return float_of(sign | ((size << 20) + (120U << 23)));
}

/// Divides many values by one divisor. Quotients of at least 2⁻¹¹ equal those of IEEE division bitwise. Smaller
/// quotients may differ in the last bits, on which no format's rounding depends. Values must be at most 2⁹ times the
/// divisor.
struct Divisor {
  float by, inverse;
  QRL_HD explicit Divisor(float by_) : by(by_), inverse(1.0F / by_) {}
  /// Returns whether `quotient` may be used. It may not if the divisor is below 2⁻⁶⁰, infinite or NaN.
  QRL_HD bool is_usual() const { return by >= 0x1p-60F && bits_of(by) < kInfinityBits; }
  /// Multiplies by the inverse and corrects twice. The first correction gives a neighbor of the exact quotient, so the
  /// second rounds correctly (Markstein's theorem).
  QRL_HD float quotient(float value) const {
    float result = value * inverse;
    result = fmaf(fmaf(-result, by, value), inverse, result);
    return fmaf(fmaf(-result, by, value), inverse, result);
  }
};

/// Returns round-half-even(value / scale), clamped to ±limit; scale must be above 0.
QRL_HD inline std::int8_t quantize_to_int(float value, float scale, float limit) {
  const float ratio = value / scale;
  return static_cast<std::int8_t>(rintf(fmaxf(-limit, fminf(limit, ratio))));
}

}  // namespace qrl::cuda

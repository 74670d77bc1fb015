#include "quant/fp8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qrl::quant {

std::uint8_t quantize_fp8(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7f);
  const float size = std::min(std::fabs(value), kFp8Max);
  int exponent = 0;
  std::frexp(size, &exponent);
  const int step = std::max(exponent - 1, -6) - 3;  // exponent of the last bit kept
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(size, -step)));  // at most 16; the value 16 carries into the exponent
  return static_cast<std::uint8_t>(sign | (steps < 8 ? steps : (step + 9) * 8 + steps));
}

float dequantize_fp8(std::uint8_t bits) {
  const int magnitude = bits & 0x7f;
  const float sign = (bits & 0x80) != 0 ? -1.0F : 1.0F;
  if (magnitude == 0x7f) return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  const int exponent = magnitude >> 3, significand = magnitude & 7;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(significand), -9)
                               : std::ldexp(static_cast<float>(8 + significand), exponent - 10));
}

}  // namespace qrl::quant

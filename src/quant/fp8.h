// Owns the reference conversion of fp8 e4m3 (OCP 8-bit floating point, "fn": no infinities): one sign bit, four
// exponent bits (bias 7), three of significand; largest 448, smallest normal 2⁻⁶, subnormals of 2⁻⁹; 0x7f and 0xff are
// NaN.
#pragma once

#include <cstdint>

namespace qrl::quant {

inline constexpr float kFp8Max = 448.0F;

/// The fp8 value nearest to `value` (ties to even), saturating at ±448, infinities too; NaN gives 0x7f with the sign
/// kept. torch's float8_e4m3fn has the same quantized values up to 448 and within half a step above; beyond, it gives
/// NaN.
std::uint8_t quantize_fp8(float value);
/// Exact.
float dequantize_fp8(std::uint8_t bits);

}  // namespace qrl::quant

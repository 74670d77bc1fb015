// Owns the reference conversion of fp8 e4m3 (OCP "fn"): one sign bit, four exponent bits (bias 7), three significand
// bits, no infinities. The largest value is 448, the smallest normal 2⁻⁶. 0x7f and 0xff are NaN.
#pragma once

#include <cstdint>

namespace qrl::quant {

inline constexpr float kFp8Max = 448.0F;

/// Returns the bits of the nearest e4m3 value (ties to even), saturated beyond ±448. NaN gives 0x7f with its sign.
/// torch's float8_e4m3fn gives NaN beyond ±464.
std::uint8_t quantize_fp8(float value);
float dequantize_fp8(std::uint8_t bits);

}  // namespace qrl::quant

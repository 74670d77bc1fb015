#pragma once

#include <cstdint>
#include <string_view>

namespace qrl::quant {

/// Storage formats of the KV cache.
///
/// f32       Not rounded.
/// bf16      Rounded to nearest even.
/// int8      Symmetric, one fp32 scale per token and kv head: scale = amax/127, value = round-half-even in −127…127.
///           A head of zeros has scale 0. A NaN or infinity makes the scale NaN, so that the output shows it.
/// fp8_e4m3  value/scale in e4m3 (nearest even, saturating at ±448; NaN stays NaN). Keys and values each have one fp32
///           scale per layer and kv head, calibrated after each publish.
enum class KvFormat : std::uint8_t { f32, bf16, int8, fp8_e4m3 };

constexpr std::string_view name(KvFormat format) {
  switch (format) {
    case KvFormat::f32:
      return "fp32";
    case KvFormat::bf16:
      return "bf16";
    case KvFormat::int8:
      return "int8";
    case KvFormat::fp8_e4m3:
      break;
  }
  return "fp8_e4m3";
}

constexpr std::int64_t value_bytes(KvFormat format) {
  return format == KvFormat::f32 ? 4 : format == KvFormat::bf16 ? 2 : 1;
}
constexpr std::int64_t values_per_word(KvFormat format) { return 4 / value_bytes(format); }

}  // namespace qrl::quant

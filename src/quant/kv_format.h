// Owns the formats of the KV cache as specifications. Knows nothing of pages or attention.
#pragma once

#include <cstdint>
#include <string_view>

namespace qrl::quant {

/// How keys and values are kept between ticks. Queries and softmax weights meet them as ops/paged_attention.h says.
///
/// f32       as computed.
/// bf16      rounded to nearest even.
/// int8      symmetric per token and kv head: scale = amax/127 (fp32, kept beside the quantized values), value =
/// round-half-even in
///           −127…127. A zero head has scale 0; a NaN or infinity makes its scale NaN, so that it shows. Not per
///           channel: that needs statistics of tokens still to come.
/// fp8_e4m3  value/scale to e4m3 (nearest even, saturating at ±448; NaN stays NaN) with one fp32 scale a layer and kv
///           head for keys and one for values, calibrated after each publish (decoder/kv_calibration.h). Not a scale a
///           token: that is int8's, and gains e4m3 nothing, whose steps are relative anyway.
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

/// Bytes of a quantized value; neighboring quantized values that lie together in a word of 32 bits.
constexpr std::int64_t value_bytes(KvFormat format) {
  return format == KvFormat::f32 ? 4 : format == KvFormat::bf16 ? 2 : 1;
}
constexpr std::int64_t values_per_word(KvFormat format) { return 4 / value_bytes(format); }

}  // namespace qrl::quant

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "state/gguf.h"

namespace qrl::state {

namespace {

constexpr int kBlockValues = 32, kSuperValues = 256;

std::uint8_t byte_at(const std::byte* block, std::int64_t at) { return static_cast<std::uint8_t>(block[at]); }

float half_at(const std::byte* block, std::int64_t at) {
  std::uint16_t bits;
  std::memcpy(&bits, block + at, sizeof bits);
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, exponent = bits >> 10 & 31U, fraction = bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -small : small;
}

void read_f32_value(const std::byte* block, float* to) { std::memcpy(to, block, sizeof *to); }
void read_f16_value(const std::byte* block, float* to) { *to = half_at(block, 0); }
void read_bf16_value(const std::byte* block, float* to) {
  std::uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  *to = std::bit_cast<float>(std::uint32_t{bits} << 16);
}

void read_q8_0(const std::byte* block, float* to) {
  const float scale = half_at(block, 0);
  for (int i = 0; i < kBlockValues; ++i)
    to[i] = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(block, 2 + i)));
}

/// Reads 4-bit values, with a fifth bit if has_fifth. The first half of a block is in the bytes' low bits. With a
/// minimum, a value is scale · q + minimum; without, scale · (q − middle).
template <bool has_fifth, bool has_minimum>
void read_nibbles(const std::byte* block, float* to) {
  constexpr std::int64_t kFifth = has_minimum ? 4 : 2, kValues = kFifth + (has_fifth ? 4 : 0);
  constexpr int kMiddle = has_minimum ? 0 : has_fifth ? 16 : 8;
  const float scale = half_at(block, 0), minimum = has_minimum ? half_at(block, 2) : 0;
  std::uint32_t fifths = 0;
  if constexpr (has_fifth) std::memcpy(&fifths, block + kFifth, sizeof fifths);
  for (int i = 0; i < kBlockValues; ++i) {
    const std::uint8_t pair = byte_at(block, kValues + i % 16);
    const int low = i < 16 ? pair & 15 : pair >> 4, fifth = static_cast<int>(fifths >> i & 1U) << 4;
    const float product = scale * static_cast<float>(low + fifth - kMiddle);
    to[i] = has_minimum ? product + minimum : product;
  }
}

struct ScaleAndMinimum {
  int scale, minimum;
};
/// Unpacks the 6-bit scale and minimum of a super-block's part `idx` from its 12 bytes.
ScaleAndMinimum six_bits(const std::byte* packed, int idx) {
  const auto at = [&](int i) { return static_cast<int>(byte_at(packed, i)); };
  if (idx < 4) return {at(idx) & 63, at(idx + 4) & 63};
  return {(at(idx + 4) & 15) | (at(idx - 4) >> 6) << 4, at(idx + 4) >> 4 | (at(idx) >> 6) << 4};
}

template <bool has_fifth>
void read_super(const std::byte* block, float* to) {
  const float scale = half_at(block, 0), minimum = half_at(block, 2);
  const std::byte *packed = block + 4, *fifths = packed + 12, *values = has_fifth ? fifths + 32 : fifths;
  for (int part = 0; part < 8; ++part) {
    const ScaleAndMinimum own = six_bits(packed, part);
    const float d = scale * static_cast<float>(own.scale), m = minimum * static_cast<float>(own.minimum);
    for (int i = 0; i < kBlockValues; ++i) {
      const std::uint8_t pair = byte_at(values, part / 2 * kBlockValues + i);
      int q = part % 2 == 0 ? pair & 15 : pair >> 4;
      if (has_fifth) q += (byte_at(fifths, i) >> part & 1) << 4;
      to[part * kBlockValues + i] = d * static_cast<float>(q) - m;
    }
  }
}

void read_q6_k(const std::byte* block, float* to) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block, 208);
  for (int i = 0; i < kSuperValues; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const std::uint8_t pair = byte_at(low, half * 64 + quarter % 2 * 32 + at);
    const int nibble = quarter < 2 ? pair & 15 : pair >> 4;
    const int two = byte_at(high, half * 32 + at) >> (2 * quarter) & 3;
    const float d = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, i / 16)));
    to[i] = d * static_cast<float>((nibble | two << 4) - 32);
  }
}

/// Rounds a finite value to half precision, nearest even; larger ones become infinite.
std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const float size = std::fabs(value);
  if (size >= 65520.0F) return sign | 0x7c00U;
  if (size < 0x1p-14F) return sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F));  // subnormal
  const std::uint32_t kept = bits & 0x7fffffffU;
  return sign | static_cast<std::uint16_t>((kept + 0xfffU + (kept >> 13 & 1U) - (112U << 23)) >> 13);
}

void put_half(float value, std::byte* to) {
  const std::uint16_t bits = half_bits(value);
  std::memcpy(to, &bits, sizeof bits);
}

void write_f32_value(const float* value, std::byte* block) { std::memcpy(block, value, sizeof *value); }
void write_bf16_value(const float* value, std::byte* block) {
  const base::bf16 rounded = base::to_bf16(*value);
  std::memcpy(block, &rounded.bits, sizeof rounded.bits);
}

/// Writes scale max|x| / 127 and rounded multiples, ties away from zero. Products are fp32.
void write_q8_0(const float* values, std::byte* block) {
  float largest = 0;
  for (int i = 0; i < kBlockValues; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
  put_half(scale, block);
  for (int i = 0; i < kBlockValues; ++i)
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(values[i] * inverse)));
}

/// Writes the scale that maps the largest value to −8, and multiples from −8 to 7. Products are fp32.
void write_q4_0(const float* values, std::byte* block) {
  float largest = values[0];
  for (int i = 1; i < kBlockValues; ++i)
    if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
  const float scale = largest / -8, inverse = scale == 0 ? 0 : 1 / scale;
  put_half(scale, block);
  const auto four_bits = [&](float value) {
    return static_cast<unsigned>(std::clamp(value * inverse + 8.5F, 0.0F, 15.0F));
  };
  for (int i = 0; i < kBlockValues / 2; ++i)
    block[2 + i] = static_cast<std::byte>(four_bits(values[i]) | four_bits(values[i + kBlockValues / 2]) << 4);
}

constexpr std::array kGgufTypes = {GgufType{0, "F32", 1, 4, read_f32_value, write_f32_value},
                                   GgufType{1, "F16", 1, 2, read_f16_value},
                                   GgufType{2, "Q4_0", kBlockValues, 18, read_nibbles<false, false>, write_q4_0},
                                   GgufType{3, "Q4_1", kBlockValues, 20, read_nibbles<false, true>},
                                   GgufType{6, "Q5_0", kBlockValues, 22, read_nibbles<true, false>},
                                   GgufType{7, "Q5_1", kBlockValues, 24, read_nibbles<true, true>},
                                   GgufType{8, "Q8_0", kBlockValues, 34, read_q8_0, write_q8_0},
                                   GgufType{12, "Q4_K", kSuperValues, 144, read_super<false>},
                                   GgufType{13, "Q5_K", kSuperValues, 176, read_super<true>},
                                   GgufType{14, "Q6_K", kSuperValues, 210, read_q6_k},
                                   GgufType{30, "BF16", 1, 2, read_bf16_value, write_bf16_value}};

}  // namespace

const GgufType* find_gguf_type(std::uint32_t id) {
  const auto* found = std::ranges::find(kGgufTypes, id, &GgufType::id);
  return found == kGgufTypes.end() ? nullptr : found;
}

const GgufType* find_gguf_type(std::string_view name) {
  const auto* found = std::ranges::find_if(kGgufTypes, [&](const GgufType& type) { return name == type.name; });
  return found == kGgufTypes.end() ? nullptr : found;
}

}  // namespace qrl::state

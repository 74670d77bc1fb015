// Owns the dot product of each element type: adjacent inputs of a row (Input, broadcast) times the same inputs of a
// vector of columns (Weights).
#pragma once

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline std::int32_t load_word(const void* from) {
  std::int32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

inline VecI load_words(const void* from) {
  VecI words;
  __builtin_memcpy(&words, from, sizeof words);
  return words;
}

inline void store_words(void* to, VecI words) { __builtin_memcpy(to, &words, sizeof words); }

inline void transpose(VecI (&rows)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    const VecI upper = (kLaneIndex & half) != 0;
    const VecI low = upper ? kLaneIndex - half + kLanes : kLaneIndex;
    const VecI high = upper ? kLaneIndex + kLanes : kLaneIndex + half;
    for (int i = 0; i < kLanes; ++i) {
      if ((i & half) != 0) continue;
      const VecI a = rows[i], b = rows[i + half];
      rows[i] = __builtin_shuffle(a, b, low);
      rows[i + half] = __builtin_shuffle(a, b, high);
    }
  }
}

struct F32Dot {
  using Element = float;
  static constexpr int kGroup = 1, kInputStep = 1;  // inputs of a word; elements of a row between its words
  static constexpr bool kOddFirst = false;
  using Accumulator = VecF;
  using Input = VecF;
  using Weights = VecF;
  static Input input(const float* x) { return splat(*x); }
  static Weights weights(const float* w) { return load(w, All{}); }
  static Weights weights(VecI words) { return float_of_bits(words); }
  static VecF dot(VecF sum, Input x, Weights w) { return fma(x, w, sum); }
};

/// Multiplies bf16 numbers widened to fp32, a word each. The words have each pair's odd input first: the order of
/// Bf16Dot, so the sums are equal (ops::FlushSubnormals). bf16 products are exact, so fusing changes no result.
struct Bf16ByFmaDot : F32Dot {
  using Stored = std::uint16_t;
  static constexpr bool kOddFirst = true;
  static void widen(const Stored* x, std::int64_t width, Element* to) {
    for (std::int64_t i = 0; i < width; i += kLanes)
      store(to + i, __builtin_shuffle(load(x + i, All{}), kLaneIndex ^ 1), All{});
  }
};
inline VecI odd_of_pairs(VecI words) { return words & ~0xffff; }
inline VecI even_of_pairs(VecI words) { return words << 16; }

struct Bf16Dot {
  using Element = std::uint16_t;
  static constexpr int kGroup = 2, kInputStep = 2;
  static constexpr bool kOddFirst = false;
  using Accumulator = VecF;
#if defined(QRL_ISA_AVX512)
  // vdpbf16ps adds the odd product, then the even one, each like an fma, and flushes subnormals to zero.
  using Input = __m512bh;
  using Weights = __m512bh;
  static Input input(const std::uint16_t* x) { return (__m512bh)splat(load_word(x)); }
  static Weights weights(VecI words) { return (__m512bh)words; }
  static VecF dot(VecF sum, Input x, Weights w) { return _mm512_dpbf16_ps(sum, x, w); }
#else
  // Adds in fp32, in the order of vdpbf16ps. bf16 products are exact, so fusing changes no result.
  struct Pair {
    VecF even, odd;
  };
  using Input = Pair;
  using Weights = Pair;
  static Pair split(VecI words) { return {float_of_bits(even_of_pairs(words)), float_of_bits(odd_of_pairs(words))}; }
  static Input input(const std::uint16_t* x) { return split(splat(load_word(x))); }
  static Weights weights(VecI words) { return split(words); }
  static VecF dot(VecF sum, Input x, Weights w) { return fma(x.even, w.even, fma(x.odd, w.odd, sum)); }
#endif
  static Weights weights(const std::uint16_t* w) { return weights(load_words(w)); }
};

/// Multiplies s8 by s8, summed exactly in int32. vpdpbusd multiplies u8 by s8, so one side (the subclass names it) is
/// passed as value + kBias. Sums are then too large by kBias · Σ quantized values of the other side.
struct Int8Dot {
  using Element = std::int8_t;
  static constexpr int kGroup = 4;
  using Accumulator = VecI;
#if defined(QRL_ISA_AVX512)
  static constexpr std::int32_t kBias = 128;
  using Input = VecI;
  using Weights = VecI;
  static VecI offset(VecI quantized) { return quantized ^ splat(static_cast<std::int32_t>(0x80808080)); }
  static VecI dot_offset(VecI sum, VecI u8, VecI s8) {
    return (VecI)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u8, (__m512i)s8);
  }
#else
  // Needs no offset: even and odd bytes are sign-extended to 16 bits. Values are at least −127, so |even·even +
  // odd·odd| ≤ 2·127² fits in 16 bits.
  static constexpr std::int32_t kBias = 0;
  struct Pair {
    VecI16 even, odd;
  };
  using Input = Pair;
  using Weights = Pair;
  static Pair split(VecI words) { return {((VecI16)words << 8) >> 8, (VecI16)words >> 8}; }
  static VecI multiply(VecI sum, Pair x, Pair w) {
#if defined(QRL_ISA_AVX2)
    return sum + (VecI)_mm256_madd_epi16((__m256i)x.even, (__m256i)w.even) +
           (VecI)_mm256_madd_epi16((__m256i)x.odd, (__m256i)w.odd);
#else
    const VecI pairs = (VecI)(x.even * w.even + x.odd * w.odd);
    return sum + ((pairs << 16) >> 16) + (pairs >> 16);
#endif
  }
#endif
};

/// Multiplies rows that `widen` prepared, so that the inner loop only loads them. A word of four inputs becomes value +
/// kBias, or a word of the even and one of the odd inputs in 16 bits.
struct Int8DotWideInput : Int8Dot {
  using Stored = std::int8_t;
#if defined(QRL_ISA_AVX512)
  static constexpr int kInputStep = kGroup;
  static void widen(const Stored* x, std::int64_t width, Element* to) {
    for (std::int64_t i = 0; i < width; i += kGroup * kLanes) store_words(to + i, offset(load_words(x + i)));
  }
  static Input input(const std::int8_t* x) { return splat(load_word(x)); }
  static Weights weights(VecI words) { return words; }
  static VecI dot(VecI sum, Input x, Weights w) { return dot_offset(sum, x, w); }
#else
  static constexpr int kInputStep = 2 * kGroup;
  static void widen(const Stored* x, std::int64_t width, Element* to) {
    const VecI pairs = kLaneIndex / 2 + (kLaneIndex & 1) * kLanes;
    for (std::int64_t i = 0; i < width; i += kGroup * kLanes, to += 2 * kGroup * kLanes) {
      const Pair both = split(load_words(x + i));
      store_words(to, __builtin_shuffle((VecI)both.even, (VecI)both.odd, pairs));
      store_words(to + kGroup * kLanes, __builtin_shuffle((VecI)both.even, (VecI)both.odd, pairs + kLanes / 2));
    }
  }
  static Input input(const std::int8_t* x) {
    return {(VecI16)splat(load_word(x)), (VecI16)splat(load_word(x + kGroup))};
  }
  static Weights weights(VecI words) { return split(words); }
  static VecI dot(VecI sum, Input x, Weights w) { return multiply(sum, x, w); }
#endif
  static Weights weights(const std::int8_t* w) { return weights(load_words(w)); }
};

struct Int8DotOffsetWeights : Int8Dot {
#if defined(QRL_ISA_AVX512)
  static Input input(const std::int8_t* x) { return splat(load_word(x)); }
  static Weights weights(VecI words) { return offset(words); }
  static VecI dot(VecI sum, Input x, Weights w) { return dot_offset(sum, w, x); }
#else
  static Input input(const std::int8_t* x) { return split(splat(load_word(x))); }
  static Weights weights(VecI words) { return split(words); }
  static VecI dot(VecI sum, Input x, Weights w) { return multiply(sum, x, w); }
#endif
};

struct Int8DotUnsignedInput : Int8Dot {
#if defined(QRL_ISA_AVX512)
  static Input input(const std::int8_t* x) { return splat(load_word(x)); }
  static Weights weights(VecI words) { return words; }
  static VecI dot(VecI sum, Input x, Weights w) { return dot_offset(sum, x, w); }
#else
  static Input input(const std::int8_t* x) {
    const auto words = (VecU16)splat(load_word(x));
    return {(VecI16)(words & 0xff), (VecI16)(words >> 8)};
  }
  static Weights weights(VecI words) { return split(words); }
  static VecI dot(VecI sum, Input x, Weights w) {
#if defined(QRL_ISA_AVX2)
    return multiply(sum, x, w);
#else
    // Multiplies even and odd bytes separately: a product of 255·127 fits in 16 bits, the sum of two does not.
    const VecI even = (VecI)(x.even * w.even), odd = (VecI)(x.odd * w.odd);
    return sum + ((even << 16) >> 16) + (even >> 16) + ((odd << 16) >> 16) + (odd >> 16);
#endif
  }
#endif
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

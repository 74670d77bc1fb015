// Owns the dot products of queries with keys, and of softmax weights with values, for each KV format. A 32-bit word
// holds kWord quantized numbers: adjacent elements of a key, or the same element of the values at adjacent positions.
#pragma once

#include "ops/kernels/dot.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

constexpr std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }

/// Calls body(index, vector) for n values at `from`, padded with zeros up to padded(n).
template <class Body>
inline void for_padded(const float* from, std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, load(from + i, All{}));
  if (i < n) body(i, load(from + i, First{static_cast<int>(n - i)}));
  for (i = (n + kLanes - 1) / kLanes * kLanes; i < padded(n); i += kLanes) body(i, VecF{});
}

// Formats with fp32 sums. `dequantize` turns a vector of words into kSteps vectors for the dot product. `put` rounds a
// vector, stores it, and returns the rounded numbers.

struct F32Values : F32Dot {
  static constexpr int kSteps = 1;
  static void dequantize(VecI words, VecF (&to)[1]) { to[0] = float_of_bits(words); }
  static VecF put(float* quantized, VecF v) {
    store(quantized, v, All{});
    return v;
  }
};

struct Bf16Values : Bf16Dot {
  static constexpr int kSteps = 1;
  static void dequantize(VecI words, Weights (&to)[1]) { to[0] = weights(words); }
  static VecF put(std::uint16_t* quantized, VecF v) {
#if defined(QRL_ISA_AVX512)
    const auto bits = (HalfU16)_mm512_cvtneps_pbh((__m512)v);
#else
    const auto bits = lowest16(bits_of(rounded_to_bf16(v)) >> 16);
#endif
    store_vector(quantized, bits, All{});
    return float_of_bits(widened(bits) << 16);
  }
};

/// Converts e4m3 values to bf16, exactly. Values 0 and 2 of a word form the first vector, 1 and 3 the second.
struct Fp8Values : Bf16Dot {
  static constexpr int kSteps = 2;
  static void dequantize(VecI words, Weights (&to)[2]) {
    VecI halves[2];
    bf16_of_fp8(words, halves);
    for (int s = 0; s < 2; ++s) to[s] = weights(halves[s]);
  }
  static VecF put(std::uint16_t* quantized, VecF v) {
    return Bf16Values::put(quantized,
                           __builtin_shuffle(v, (kLaneIndex & ~3) | (kLaneIndex & 1) << 1 | (kLaneIndex & 2) >> 1));
  }
};

template <class Values>
struct FloatKv {
  static constexpr int kSteps = Values::kSteps, kWord = Values::kGroup * kSteps;
  static constexpr bool kTokenScales = false;
#if defined(QRL_ISA_AVX512)
  static constexpr int kMaxQueries = 4;
#else
  static constexpr int kMaxQueries = 2;
#endif

  struct Operand {
    const typename Values::Element* quantized;
    float unit;  ///< factor by which a sum is multiplied
  };

  static Operand prepare(const float* q, std::int64_t n, float scale, void* memory) {
    auto* quantized = static_cast<typename Values::Element*>(memory);
    for_padded(q, n, [quantized](std::int64_t i, VecF v) { (void)Values::put(quantized + i, v); });
    return {quantized, scale};
  }

  /// Computes the weights exp(score − top) of `count` scores and rounds them. Scores are padded with −inf to a whole
  /// vector. `sum` receives the sum of the rounded weights.
  template <class TokenScales>
  static Operand soften(float* scores, std::int64_t count, float top, const TokenScales&, void* memory, float& sum) {
    auto* quantized = static_cast<typename Values::Element*>(memory);
    VecF total{};
    for (std::int64_t i = 0; i < count; i += kLanes)
      total = total + Values::put(quantized + i, exp(load(scores + i, All{}) - top));
    sum = reduce_add(total);
    return {quantized, 1.0F};
  }

  template <int Queries, int Vectors>
  struct Sums {
    VecF sums[Queries][Vectors] = {};
    explicit Sums(const Operand*) {}
    void add(const Operand* operands, std::int64_t word, const VecI (&words)[Vectors]) {
      typename Values::Weights vectors[Vectors][kSteps];
      for (int v = 0; v < Vectors; ++v) Values::dequantize(words[v], vectors[v]);
      for (int s = 0; s < kSteps; ++s) {
        for (int n = 0; n < Queries; ++n) {
          const auto input = Values::input(operands[n].quantized + word * kWord + s * Values::kGroup);
          for (int v = 0; v < Vectors; ++v) sums[n][v] = Values::dot(sums[n][v], input, vectors[v][s]);
        }
      }
    }
    VecF finish(const Operand* operands, int n, int v) const { return sums[n][v] * operands[n].unit; }
  };
  template <int Queries, int Vectors>
  using Scores = Sums<Queries, Vectors>;
  template <int Queries, int Vectors>
  using Mix = Sums<Queries, Vectors>;
};

using KvF32 = FloatKv<F32Values>;
using KvBf16 = FloatKv<Bf16Values>;
using KvFp8 = FloatKv<Fp8Values>;

/// Splits queries and weights into two 8-bit terms (ops/paged_attention.h).
struct KvInt8 {
  static constexpr int kWord = 4;
  static constexpr bool kTokenScales = true;
#if defined(QRL_ISA_AVX512)
  static constexpr int kMaxQueries = 3;
#else
  static constexpr int kMaxQueries = 1;
#endif
  using ScoreDot = Int8DotOffsetWeights;
  using MixDot = Int8DotUnsignedInput;

  struct Operand {
    const std::int8_t *high, *low;
    float unit;
    std::int32_t bias_high, bias_low;  ///< kBias · Σ of `high` and of `low`, subtracted because keys have offset kBias
  };

  /// A NaN or infinity in the query makes `unit` NaN, and thereby every result.
  static Operand prepare(const float* q, std::int64_t n, float scale, void* memory) {
    auto* high = static_cast<std::int8_t*>(memory);
    auto* low = high + padded(n);
    VecF most{}, poison{};
    for_padded(q, n, [&](std::int64_t, VecF v) {
      most = max(most, max(v, -v));
      poison = poison + v * 0.0F;
    });
    const float largest = reduce_max(most), inverse = inverse_of(127, largest);
    VecI high_sum{}, low_sum{};
    for_padded(q, n, [&](std::int64_t i, VecF v) {
      const VecF scaled = v * inverse;
      const VecI h = round_to_int(scaled);
      const VecI l = round_to_int((scaled - __builtin_convertvector(h, VecF)) * 254.0F);
      store(high + i, h, All{});
      store(low + i, l, All{});
      high_sum += h;
      low_sum += l;
    });
    return {high, low, largest / (127 * 254) * scale + reduce_add(poison), ScoreDot::kBias * reduce_add(high_sum),
            ScoreDot::kBias * reduce_add(low_sum)};
  }

  /// Computes the weights of FloatKv, multiplied by the values' scales. token_scales(i) returns a vector of scales from
  /// position i on; scales past `count` are undefined.
  template <class TokenScales>
  static Operand soften(float* scores, std::int64_t count, float top, const TokenScales& token_scales, void* memory,
                        float& sum) {
    VecF total{}, most{}, poison{};
    for (std::int64_t i = 0; i < count; i += kLanes) {
      VecF weight = exp(load(scores + i, All{}) - top);
      total = total + weight;
      weight = weight * token_scales(i);
      if (count - i < kLanes) weight = kLaneIndex < static_cast<std::int32_t>(count - i) ? weight : VecF{};
      most = max(most, weight);
      poison = fma(weight, VecF{}, poison);
      store(scores + i, weight, All{});
    }
    sum = reduce_add(total);
    constexpr std::int64_t kRoom = 128;
    auto* high = static_cast<std::int8_t*>(memory);
    auto* low = high + kRoom;
    const float largest = reduce_max(most), inverse = inverse_of(65535, largest);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      const VecI value = round_to_int(load(scores + i, All{}) * inverse);
      store(high + i, value >> 8, All{});
      store(low + i, value, All{});
    }
    return {high, low, largest / 65535 + reduce_add(poison), 0, 0};
  }

  template <class Dot, int kHigh, int Queries, int Vectors>
  struct Sums {
    VecI high[Queries][Vectors], low[Queries][Vectors];
    explicit Sums(const Operand* operands) {
      for (int n = 0; n < Queries; ++n) {
        for (int v = 0; v < Vectors; ++v) {
          high[n][v] = splat(-operands[n].bias_high);
          low[n][v] = splat(-operands[n].bias_low);
        }
      }
    }
    void add(const Operand* operands, std::int64_t word, const VecI (&words)[Vectors]) {
      typename Dot::Weights vectors[Vectors];
      for (int v = 0; v < Vectors; ++v) vectors[v] = Dot::weights(words[v]);
      for (int n = 0; n < Queries; ++n) {
        const auto h = Dot::input(operands[n].high + word * kWord), l = Dot::input(operands[n].low + word * kWord);
        for (int v = 0; v < Vectors; ++v) {
          high[n][v] = Dot::dot(high[n][v], h, vectors[v]);
          low[n][v] = Dot::dot(low[n][v], l, vectors[v]);
        }
      }
    }
    VecF finish(const Operand* operands, int n, int v) const {
      const VecF h = __builtin_convertvector(high[n][v], VecF), l = __builtin_convertvector(low[n][v], VecF);
      return fma(h, splat(static_cast<float>(kHigh)), l) * operands[n].unit;
    }
  };
  template <int Queries, int Vectors>
  using Scores = Sums<ScoreDot, 254, Queries, Vectors>;
  template <int Queries, int Vectors>
  using Mix = Sums<MixDot, 256, Queries, Vectors>;

 private:
  static float inverse_of(float quantized, float largest) { return largest > 0x1p-100F ? quantized / largest : 0.0F; }
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

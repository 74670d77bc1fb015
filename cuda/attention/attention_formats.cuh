#pragma once

#include "cuda/runtime/portable.h"
#include "cuda/runtime/target.h"
#include "cuda/runtime/widen.cuh"
#include "quant/kv_format.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

template <int kCount>
struct alignas(4 * kCount) Words {
  std::uint32_t word[kCount];
};

/// Describes formats whose queries and weights are 16-bit floats.
struct FloatElements {
  using Sum = float;
  static constexpr bool kScaled = false;  // whether each slot has a scale
  static constexpr int kTerms = 1;        // number of terms that a query or weight is split into
  static constexpr int kWordNumbers = 2;
  static constexpr int kSteps = 1;  // steps of 16 positions that one mma with values covers
  QRL_DEVICE static float total(const float (&sums)[1]) { return sums[0]; }
};

template <quant::KvFormat format>
struct KvElements;

template <>
struct KvElements<quant::KvFormat::bf16> : FloatElements {
  static constexpr int kBytes = 2;
  static constexpr bool kScalesQueries = false;

  QRL_DEVICE static void quantize_query(const float (&values)[2], float, std::uint32_t (&terms)[1]) {
    terms[0] = bf16x2_of(values[0], values[1]);
  }
  QRL_DEVICE static std::uint32_t pair_of(float& first, float& second) {
    const std::uint32_t pair = bf16x2_of(first, second);
    first = float_of(pair << 16);
    second = float_of(pair & 0xffff0000U);
    return pair;
  }
  QRL_DEVICE static void multiply_keys(float (&scores)[4], const std::uint32_t (&queries)[4],
                                       const std::uint32_t (&keys)[2]) {
    mma(scores, queries, keys[0], keys[1]);
  }
  QRL_DEVICE static void multiply_weights(float (&context)[4], const std::uint32_t (&values)[4],
                                          const std::uint32_t (&weights)[1][2]) {
    mma(context, values, weights[0][0], weights[0][1]);
  }

  /// Returns which number of a lane's key vector is number `j` of operand word `half` in mma step `i`.
  static constexpr int key_number(int i, int half, int j) { return 4 * i + 2 * half + j; }
  QRL_DEVICE static void key_words(const std::uint32_t (&vector)[4], int i, std::uint32_t (&to)[2]) {
    to[0] = vector[2 * i];
    to[1] = vector[2 * i + 1];
  }
  /// Packs element 2j of four positions into row g = lane / 4 of the mma fragment, and element 2j + 1 into row g + 8.
  template <int kCount>
  QRL_DEVICE static void value_words(const Words<kCount> (&of)[1][4], int j, std::uint32_t (&to)[4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      to[2 * r] = pick_bytes(of[0][2 * r].word[j], of[0][2 * r + 1].word[j], 0x5410);
      to[2 * r + 1] = pick_bytes(of[0][2 * r].word[j], of[0][2 * r + 1].word[j], 0x7632);
    }
  }
};

/// Converts keys and values to fp16, exactly. Rounds queries and weights to fp16. A query is first scaled by a power of
/// two, so that its largest magnitude is in [2^14, 2^15).
template <>
struct KvElements<quant::KvFormat::fp8_e4m3> : FloatElements {
  static constexpr int kBytes = 1;
  static constexpr bool kScalesQueries = true;

  /// Returns the factor that scales a query. Returns 0 if `largest` is NaN or infinite. The product of NaN or infinity
  /// with 0 is NaN; all other elements become 0.
  QRL_DEVICE static float query_inverse(float largest) {
    return magnitude_of(largest) < kInfinityBits ? float_of((268U - exponent_of(largest)) << 23) : 0.0F;
  }
  QRL_DEVICE static float query_unit(float largest) { return float_of((exponent_of(largest) - 14U) << 23); }
  QRL_DEVICE static void quantize_query(const float (&values)[2], float inverse, std::uint32_t (&terms)[1]) {
    terms[0] = f16x2_of(values[0] * inverse, values[1] * inverse);
  }
  QRL_DEVICE static std::uint32_t pair_of(float& first, float& second) {
    const std::uint32_t pair = f16x2_of(first, second);
    floats_of_f16x2(pair, first, second);
    return pair;
  }
  QRL_DEVICE static void multiply_keys(float (&scores)[4], const std::uint32_t (&queries)[4],
                                       const std::uint32_t (&keys)[2]) {
    mma_f16(scores, queries, keys[0], keys[1]);
  }
  QRL_DEVICE static void multiply_weights(float (&context)[4], const std::uint32_t (&values)[4],
                                          const std::uint32_t (&weights)[1][2]) {
    mma_f16(context, values, weights[0][0], weights[0][1]);
  }

  static constexpr int key_number(int i, int half, int j) { return 4 * i + 2 * half + j; }
  QRL_DEVICE static void key_words(const std::uint32_t (&vector)[4], int i, std::uint32_t (&to)[2]) {
    widen_fp8(vector[i], to[0], to[1]);
  }
  template <int kCount>
  QRL_DEVICE static void value_words(const Words<kCount> (&of)[1][4], int j, std::uint32_t (&to)[4]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t both =
          pick_bytes(of[0][2 * r].word[j / 2], of[0][2 * r + 1].word[j / 2], j % 2 == 0 ? 0x5140 : 0x7362);
      widen_fp8(both, to[2 * r], to[2 * r + 1]);
    }
  }

 private:
  /// Returns the biased fp32 exponent of `largest`, but at least 41, so that query_inverse is finite.
  QRL_DEVICE static std::uint32_t exponent_of(float largest) {
    const std::uint32_t exponent = magnitude_of(largest) >> 23;
    return exponent < 41 ? 41 : exponent;
  }
};

/// Splits each number of a query, and each weight, into two 8-bit terms. attention_task.h defines them.
template <>
struct KvElements<quant::KvFormat::int8> {
  using Sum = std::int32_t;
  static constexpr bool kScaled = true, kScalesQueries = true;
  static constexpr int kBytes = 1, kTerms = 2, kWordNumbers = 4, kSteps = 2;

  /// Returns limit / largest, the factor that scales a magnitude of `largest` to `limit`. Returns 0 if `largest` is
  /// tiny, infinite or NaN.
  QRL_DEVICE static float inverse(float limit, float largest) {
    return largest > 0x1p-100F && magnitude_of(largest) < kInfinityBits ? limit / largest : 0.0F;
  }
  QRL_DEVICE static float query_inverse(float largest) { return inverse(127.0F, largest); }
  QRL_DEVICE static float query_unit(float largest) { return largest / (127.0F * 254.0F); }
  QRL_DEVICE static void quantize_query(const float (&values)[4], float inverse, std::uint32_t (&terms)[2]) {
    terms[0] = terms[1] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float scaled = inverse > 0 ? values[j] * inverse : 0.0F, high = rintf(scaled);
      const float low = rintf((scaled - high) * 254.0F);
      terms[0] |= (static_cast<std::uint32_t>(static_cast<std::int32_t>(high)) & 0xffU) << (8 * j);
      terms[1] |= (static_cast<std::uint32_t>(static_cast<std::int32_t>(low)) & 0xffU) << (8 * j);
    }
  }
  QRL_DEVICE static float total(const std::int32_t (&sums)[2]) {
    return fmaf(static_cast<float>(sums[0]), 254.0F, static_cast<float>(sums[1]));
  }
  QRL_DEVICE static void multiply_keys(std::int32_t (&scores)[4], const std::uint32_t (&queries)[4],
                                       const std::uint32_t (&keys)[2]) {
    mma(scores, queries, keys[0], keys[1]);
  }
  static constexpr int key_number(int i, int half, int j) { return 8 * i + 4 * half + j; }
  QRL_DEVICE static void key_words(const std::uint32_t (&vector)[4], int i, std::uint32_t (&to)[2]) {
    to[0] = vector[2 * i];
    to[1] = vector[2 * i + 1];
  }

  QRL_DEVICE static float weight_inverse(float largest) { return inverse(65535.0F, largest); }
  QRL_DEVICE static float weight_unit(float largest) { return largest / 65535.0F; }
  QRL_DEVICE static void quantize_weights(const float (&values)[2][2], float inverse, std::uint32_t (&terms)[2]) {
    std::uint32_t pairs[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      pairs[h] = 0;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float quantized = inverse > 0 ? rintf(values[h][j] * inverse) : 0.0F;
        pairs[h] |= static_cast<std::uint32_t>(quantized) << (16 * j);
      }
    }
    terms[0] = pick_bytes(pairs[0], pairs[1], 0x7531);
    terms[1] = pick_bytes(pairs[0], pairs[1], 0x6420);
  }
  template <int kCount>
  QRL_DEVICE static void value_words(const Words<kCount> (&of)[2][4], int j, std::uint32_t (&to)[4]) {
    const std::uint32_t two = j % 2 == 0 ? 0x5140 : 0x7362;  // selects element 2j of both positions, then 2j + 1
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const std::uint32_t first = pick_bytes(of[step][0].word[j / 2], of[step][1].word[j / 2], two),
                          second = pick_bytes(of[step][2].word[j / 2], of[step][3].word[j / 2], two);
      to[2 * step] = pick_bytes(first, second, 0x5410);
      to[2 * step + 1] = pick_bytes(first, second, 0x7632);
    }
  }
  /// Adds values · (256·high + low) to int32 sums, where `high` and `low` are the two terms of a weight. The sums
  /// cannot overflow: 64 positions add at most 64 · 127 · 65,535.
  QRL_DEVICE static void multiply_weights(std::int32_t (&context)[4], const std::uint32_t (&values)[4],
                                          const std::uint32_t (&weights)[2][2]) {
    std::int32_t high[4] = {};
    mma_unsigned_b(high, values, weights[0][0], weights[1][0]);
#pragma unroll
    for (int c = 0; c < 4; ++c) context[c] += high[c] * 256;
    mma_unsigned_b(context, values, weights[0][1], weights[1][1]);
  }
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET

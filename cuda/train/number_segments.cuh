#pragma once

#include "cuda/runtime/portable.h"
#include "cuda/runtime/target.h"
#include "cuda/train/training.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Returns the block's sum, added in a fixed order, to every thread. exchange: [kWarps] in shared memory.
template <int kWarps>
QRL_DEVICE double block_sum_f64(double value, double* exchange) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (thread_idx() % 32 == 0) exchange[thread_idx() / 32] = value;
  sync_block();
  double total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += exchange[warp];
  sync_block();
  return total;
}

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Holds kSize numbers as stored. `widen` converts them later, so that several loads are in flight.
template <int kSize>
struct Vector;

template <>
struct Vector<8> {
  Words low, high;  ///< high: used for fp32 only
  QRL_DEVICE static Vector load(const ReadRows& rows, std::int64_t at) {
    Vector vector{};
    if (rows.is_f32) {
      const auto* from = reinterpret_cast<const Words*>(static_cast<const float*>(rows.values) + at);
      vector.low = from[0];
      vector.high = from[1];
    } else {
      vector.low = *reinterpret_cast<const Words*>(static_cast<const std::uint16_t*>(rows.values) + at);
    }
    return vector;
  }
  QRL_DEVICE void widen(bool is_f32, float (&x)[8]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (is_f32) {
        x[i] = float_of(low.word[i]);
        x[4 + i] = float_of(high.word[i]);
      } else {
        x[2 * i] = float_of(low.word[i] << 16);
        x[2 * i + 1] = float_of(low.word[i] & 0xffff0000U);
      }
    }
  }
  QRL_DEVICE static void store(const WrittenRows& rows, std::int64_t at, const float (&x)[8]) {
    Words low, high;
    if (rows.is_f32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low.word[i] = bits_of(x[i]);
        high.word[i] = bits_of(x[4 + i]);
      }
      auto* to = reinterpret_cast<Words*>(static_cast<float*>(rows.values) + at);
      to[0] = low;
      to[1] = high;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) low.word[i] = bf16x2_of(x[2 * i], x[2 * i + 1]);
      *reinterpret_cast<Words*>(static_cast<std::uint16_t*>(rows.values) + at) = low;
    }
  }
};

template <>
struct Vector<1> {
  float value;
  QRL_DEVICE static Vector load(const ReadRows& rows, std::int64_t at) {
    return {rows.is_f32 ? static_cast<const float*>(rows.values)[at]
                        : float_of_bf16(static_cast<const std::uint16_t*>(rows.values)[at])};
  }
  QRL_DEVICE void widen(bool, float (&x)[1]) const { x[0] = value; }
  QRL_DEVICE static void store(const WrittenRows& rows, std::int64_t at, const float (&x)[1]) {
    if (rows.is_f32) static_cast<float*>(rows.values)[at] = x[0];
    else static_cast<std::uint16_t*>(rows.values)[at] = bf16_of(x[0]);
  }
};

/// Returns whether rows can be accessed as 16-byte aligned vectors of eight numbers.
inline bool has_words(const void* values, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(values) % 16 == 0 && stride % 8 == 0;
}
inline bool has_words(const ReadRows& rows) { return has_words(rows.values, rows.stride); }
inline bool has_words(const WrittenRows& rows) { return has_words(rows.values, rows.stride); }

}  // namespace qrl::cuda::QRL_CUDA_TARGET

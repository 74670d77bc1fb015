// Owns what both passes of gated DeltaNet compute for each row by itself: convolution, lengths, gates, and the last
// norm. One key head at a time; arrays of a segment are [rows][head's width].
#pragma once

#include "ops/kernels/delta_net.h"
#include "ops/kernels/gates.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline constexpr float kLengthEps = 1e-6F;

/// Returns log(1 + y) for 0 ≤ y ≤ 1 with an error of at most 2 ulp. Method: 2·atanh(z), z = y / (2 + y) ≤ 1/3, and its
/// series up to z¹⁷, whose remainder is below 1e-9.
inline VecF log_one_plus(VecF y) {
  const VecF z = y / (2.0F + y), square = z * z;
  VecF p = splat(1.0F / 17);
  for (const float divisor : {15.0F, 13.0F, 11.0F, 9.0F, 7.0F, 5.0F, 3.0F}) p = fma(p, square, splat(1.0F / divisor));
  return 2.0F * fma(p * square, z, z);
}

/// Returns log(1 + exp(x)).
inline VecF softplus(VecF x) { return max(x, VecF{}) + log_one_plus(exp(-max(x, -x))); }

/// Points to a segment's rows of one type.
template <class T>
struct DeltaRows {
  const DeltaSegment& segment;
  const T* at(std::int64_t row) const {
    return static_cast<const T*>(segment.rows[segment.shape->conv_width - 1 + row]);
  }
};

/// Calls body with DeltaRows of the segment's type.
template <class Body>
inline void with_rows(const DeltaSegment& segment, const Body& body) {
  if (segment.is_bf16) body(DeltaRows<std::uint16_t>{segment});
  else body(DeltaRows<float>{segment});
}

/// Computes the convolution of `dim` channels from `column` on, before SiLU, for all rows. `taps`: those of the first
/// channel, `taps_stride` between tokens. Sums begin with the oldest token.
template <class T>
inline void convolve(const DeltaRows<T>& rows, std::int64_t column, std::int64_t dim, const float* taps,
                     std::int64_t taps_stride, float* out) {
  static const T kZeros[kMaxDeltaDim] = {};
  const std::int64_t width = rows.segment.shape->conv_width;
  for (std::int64_t r = 0; r < rows.segment.num_rows; ++r) {
    const T* from[kMaxConvWidth];
    for (std::int64_t t = 0; t < width; ++t) {
      const T* row = rows.at(r + t + 1 - width);
      from[t] = row != nullptr ? row + column : kZeros;
    }
    for (std::int64_t i = 0; i < dim; i += kLanes) {
      VecF sum = {};
      for (std::int64_t t = 0; t < width; ++t)
        sum = fma(load(taps + t * taps_stride + i, All{}), load(from[t] + i, All{}), sum);
      store(out + r * dim + i, sum, All{});
    }
  }
}

/// Applies SiLU to `count` numbers.
inline void apply_silu(const float* x, std::int64_t count, float* y) {
  for (std::int64_t i = 0; i < count; i += kLanes) store(y + i, Silu::value(load(x + i, All{})), All{});
}

/// Divides a row by its length and multiplies it by `scale`. Returns 1/length.
inline float normalize(std::int64_t dim, float scale, float* row) {
  VecF squares = {};
  for (std::int64_t i = 0; i < dim; i += kLanes) {
    const VecF x = load(row + i, All{});
    squares = fma(x, x, squares);
  }
  const float inverse = 1.0F / __builtin_sqrtf(reduce_add(squares) + kLengthEps);
  for (std::int64_t i = 0; i < dim; i += kLanes) store(row + i, load(row + i, All{}) * (inverse * scale), All{});
  return inverse;
}

inline float query_scale(const DeltaShape& shape) { return 1.0F / __builtin_sqrtf(static_cast<float>(shape.key_dim)); }

/// Holds a segment's gates of one head, by row.
struct DeltaGates {
  alignas(64) float beta[kDeltaChunk], g[kDeltaChunk], decay[kDeltaChunk];
  alignas(64) float softplus_slope[kDeltaChunk];  ///< derivative of softplus(a + dt_bias)
  float rate;                                     ///< exp(a_log)
};

/// Computes the gates of value head `head` for `padded_rows` rows, a multiple of kLanes. Rows beyond the segment get
/// β = 0 and g = 0.
inline void compute_gates(const DeltaSegment& segment, std::int64_t head, std::int64_t padded_rows, DeltaGates& gates) {
  const std::int64_t num_heads = segment.shape->num_value_heads;
  gates.rate = exp(splat(segment.weights->a_log_H[head]))[0];
  const VecF dt_bias = splat(segment.weights->dt_bias_H[head]);
  for (std::int64_t r = 0; r < padded_rows; r += kLanes) {
    VecF b = {}, a = {}, valid = {};
    for (std::int64_t i = 0; i < kLanes && r + i < segment.num_rows; ++i) {
      const float* row = segment.gates_in + (r + i) * 2 * num_heads;
      b[i] = row[head];
      a[i] = row[num_heads + head];
      valid[i] = 1;
    }
    const VecF g = (-gates.rate * softplus(a + dt_bias)) * valid;
    store(gates.beta + r, sigmoid(b) * valid, All{});
    store(gates.g + r, g, All{});
    store(gates.decay + r, exp(g), All{});
    store(gates.softplus_slope + r, sigmoid(a + dt_bias) * valid, All{});
  }
}

constexpr std::int64_t padded_rows(std::int64_t rows, std::int64_t multiple) {
  return (rows + multiple - 1) / multiple * multiple;
}

/// Returns 1/sqrt(mean(o²) + eps).
inline float inverse_rms(const float* o, std::int64_t dim, float eps) {
  VecF squares = {};
  for (std::int64_t i = 0; i < dim; i += kLanes) {
    const VecF x = load(o + i, All{});
    squares = fma(x, x, squares);
  }
  return 1.0F / __builtin_sqrtf(reduce_add(squares) / static_cast<float>(dim) + eps);
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

template <class Values>
float max_abs_of(std::int64_t n, const Values& values) {
  // Compares the bits of |x| as integers, which are ordered like the values; infinities and NaN are above all numbers.
  VecI largest{};
  for_vectors(n, [&](std::int64_t i, auto lanes) { largest = max(largest, bits_of(values(i, lanes)) & 0x7fffffff); });
  return float_of_bits(splat(reduce_max(largest)))[0];
}

template <class Values>
void quantize_int_of(std::int64_t n, const Values& values, float scale, float lowest, float highest,
                     std::int8_t* quantized) {
  const VecF step = splat(scale), least = splat(lowest), most = splat(highest);
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    const VecF value = max(least, min(most, values(i, lanes) / step));
    store(quantized + i, round_to_int(value), lanes);
  });
}

template <class Values>
float quantize_int8_of(std::int64_t n, const Values& values, std::int8_t* quantized) {
  const float amax = max_abs_of(n, values);
  const bool finite = amax < kInfinity;
  const float scale = amax / 127.0F;
  if (!finite || scale == 0.0F) {
    for (std::int64_t i = 0; i < n; ++i) quantized[i] = 0;
    return finite ? 0.0F : __builtin_nanf("");
  }
  quantize_int_of(n, values, scale, -127.0F, 127.0F, quantized);
  return scale;
}

}  // namespace

float max_abs(const float* x, std::int64_t n) {
  return max_abs_of(n, [&](std::int64_t i, auto lanes) { return load(x + i, lanes); });
}

void round_to_bf16(const float* x, std::int64_t n, std::uint16_t* quantized) {
  for_vectors(n, [&](std::int64_t i, auto lanes) { store(quantized + i, load(x + i, lanes), lanes); });
}

void widen_bf16(const std::uint16_t* quantized, std::int64_t n, float* x) {
  for_vectors(n, [&](std::int64_t i, auto lanes) { store(x + i, load(quantized + i, lanes), lanes); });
}

float quantize_int8(const float* x, std::int64_t n, std::int8_t* quantized) {
  return quantize_int8_of(
      n, [&](std::int64_t i, auto lanes) { return load(x + i, lanes); }, quantized);
}

float quantize_product_int8(const float* x, const float* factors, std::int64_t n, std::int8_t* quantized) {
  return quantize_int8_of(
      n, [&](std::int64_t i, auto lanes) { return load(x + i, lanes) * load(factors + i, lanes); }, quantized);
}

void quantize_int(const float* x, std::int64_t n, float scale, float lowest, float highest, std::int8_t* quantized) {
  quantize_int_of(
      n, [&](std::int64_t i, auto lanes) { return load(x + i, lanes); }, scale, lowest, highest, quantized);
}

void int4_sums(const float* x, std::int64_t n, const float* inverse, float grid, std::int32_t* squares,
               std::int32_t* products) {
  VecI all_squares[kInt4Candidates] = {}, all_products[kInt4Candidates] = {};
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    const VecF values = load(x + i, lanes);
    const VecI fixed = round_to_int(values * splat(grid));
    for (int c = 0; c < kInt4Candidates; ++c) {
      const VecI level = round_to_int(max(splat(c == 0 ? -7.0F : -8.0F), min(splat(7.0F), values * splat(inverse[c]))));
      all_squares[c] += level * level;
      all_products[c] += level * fixed;
    }
  });
  for (int c = 0; c < kInt4Candidates; ++c) {
    squares[c] = reduce_add(all_squares[c]);
    products[c] = reduce_add(all_products[c]);
  }
}

void quantize_fp8(const float* x, std::int64_t n, float scale, std::uint8_t* quantized) {
  const VecF step = splat(scale);
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    store_vector(quantized + i, (QuarterU8)lowest8(fp8_of(load(x + i, lanes) / step)), lanes);
  });
}

void round_fp8(const float* x, std::int64_t n, float scale, std::uint16_t* rounded) {
  const VecF step = splat(scale);
  for_vectors(
      n, [&](std::int64_t i, auto lanes) { store(rounded + i, rounded_to_fp8(load(x + i, lanes) / step), lanes); });
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

// A block quantizes one row. If rows share a scale, a first pass finds the largest magnitudes.
#include "cuda/quantize/quantize_weights.h"
#include "cuda/quantize/rotate.cuh"
#include "cuda/runtime/row_block.cuh"
#include "cuda/runtime/target.h"
#include "quant/int4_scale.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;
using quant::ScaleScope;

constexpr std::int64_t kBlockSide = 128;

QRL_DEVICE std::uint32_t larger(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

QRL_DEVICE float weight_at(const QuantizeWeightsTask& task, std::int64_t row, std::int64_t i) {
  const float value = task.weights[row * task.at.in + i];
  return task.input_factors != nullptr ? value * task.input_factors[i] : value;
}

QRL_DEVICE float scale_of(Element element, std::uint32_t magnitude) {
  const float amax = float_of(magnitude);
  if (element == Element::fp8_e4m3) return amax / 448.0F;
  return element == Element::int4 ? float_of_bf16(bf16_of(amax / 7.0F)) : amax / 127.0F;
}

/// lowest: lowest level of int4.
QRL_DEVICE std::uint32_t quantized_bits(Element element, float value, float scale, float lowest) {
  if (element == Element::bf16) return bf16_of(value);
  // Returns 0 if the scale is 0 or not finite. In the latter case, the weights are rejected anyway.
  if (magnitude_of(scale) == 0 || magnitude_of(scale) >= kInfinityBits) return 0;
  if (element == Element::fp8_e4m3) return fp8_of(value / scale);
  if (element == Element::int4)
    return static_cast<std::uint32_t>(static_cast<int>(rintf(fmaxf(lowest, fminf(7.0F, value / scale))))) & 0xfU;
  return static_cast<std::uint32_t>(quantize_to_int(value, scale, 127.0F)) & 0xffU;
}

QRL_DEVICE void store_words(const QuantizeWeightsTask& task, std::int64_t row, std::int64_t begin, std::int64_t end,
                            quant::Int4Scale scale, int idx, int count) {
  const int num_inputs = static_cast<int>(task.at.word_inputs), bits = 32 / num_inputs;
  auto* words = reinterpret_cast<std::uint32_t*>(task.quantized + (task.first_row + row) * task.at.row_bytes);
  for (std::int64_t w = begin + idx; w < end; w += count) {
    std::uint32_t word = 0;
    for (int i = 0; i < num_inputs; ++i) {
      const std::int64_t input = w * num_inputs + i;
      if (input >= task.at.in) break;
      const int bit = task.element == Element::int4 ? int4_bit(task.order, i) : i * bits;
      word |= quantized_bits(task.element, weight_at(task, row, input), scale.scale, scale.lowest) << bit;
    }
    words[w] = word;
  }
}

QRL_DEVICE std::uint32_t share_of_largest(const QuantizeWeightsTask& task, std::int64_t row, std::int64_t begin,
                                          std::int64_t end, int idx, int count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = begin + idx; i < end; i += count)
    largest = larger(largest, magnitude_of(weight_at(task, row, i)));
  return largest;
}

/// Returns an int4 group's scale. Every lane of the warp gets it.
QRL_DEVICE quant::Int4Scale int4_scale(const QuantizeWeightsTask& task, std::int64_t row, std::int64_t begin,
                                       std::int64_t end, std::uint32_t largest) {
  const quant::Int4Scales scales(float_of(largest));
  quant::Int4Sums sums;
  if (!scales.is_searched()) return scales.best(sums);
  for (std::int64_t i = begin + lane_idx(); i < end; i += 32) {
    const float value = weight_at(task, row, i);
    const int fixed = static_cast<int>(rintf(value * scales.grid()));
    for (int c = 0; c < quant::kInt4Candidates; ++c) {
      const float ratio = value * scales.inverse()[c];
      const int level = static_cast<int>(rintf(fminf(fmaxf(ratio, quant::lowest_level(c)), 7.0F)));
      sums.squares[c] += level * level;
      sums.products[c] += level * fixed;
    }
  }
  for (int c = 0; c < quant::kInt4Candidates; ++c) {
    sums.squares[c] = warp_sum(sums.squares[c]);
    sums.products[c] = warp_sum(sums.products[c]);
  }
  return scales.best(sums);
}

QRL_DEVICE void note(std::uint32_t magnitude, std::uint32_t* not_finite) {
  if (magnitude >= kInfinityBits) *not_finite = 1;  // all writers store the same value
}

QRL_DEVICE float* exchange_memory() { return reinterpret_cast<float*>(shared_memory()); }
constexpr std::size_t kExchangeBytes = kWarps * sizeof(float);

QRL_KERNEL void row_magnitudes_kernel(QuantizeWeightsTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const std::uint32_t mine = share_of_largest(task, row, 0, task.at.in, thread_idx(), kThreads);
  const std::uint32_t largest = block_max(mine, exchange_memory());
  if (thread_idx() == 0) task.magnitudes[row] = largest;
}

QRL_KERNEL void tensor_magnitude_kernel(QuantizeWeightsTask task) {
  wait_for_kernel_before();
  std::uint32_t mine = 0;
  for (std::int64_t row = thread_idx(); row < task.num_rows; row += kThreads) mine = larger(mine, task.magnitudes[row]);
  const std::uint32_t largest = block_max(mine, exchange_memory());
  if (thread_idx() == 0) task.magnitudes[task.num_rows] = largest;
}

QRL_KERNEL void block_magnitudes_kernel(QuantizeWeightsTask task) {
  wait_for_kernel_before();
  const std::int64_t first = block_x() * kBlockSide, begin = block_y() * kBlockSide;
  const std::int64_t end = begin + kBlockSide < task.at.in ? begin + kBlockSide : task.at.in;
  const std::int64_t end_row = first + kBlockSide < task.num_rows ? first + kBlockSide : task.num_rows;
  std::uint32_t mine = 0;
  for (std::int64_t row = first + warp_idx(); row < end_row; row += kWarps)
    mine = larger(mine, share_of_largest(task, row, begin, end, lane_idx(), 32));
  const std::uint32_t largest = block_max(mine, exchange_memory());
  if (thread_idx() == 0) task.magnitudes[block_x() * task.at.num_scales + block_y()] = largest;
}

QRL_KERNEL void quantize_weights_kernel(QuantizeWeightsTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  if (task.at.num_scales <= 1 && task.element != Element::int4) {
    const std::uint32_t mine = share_of_largest(task, row, 0, task.at.in, thread_idx(), kThreads);
    std::uint32_t largest = block_max(mine, exchange_memory());
    note(largest, task.not_finite);
    if (task.scope == ScaleScope::tensor) largest = task.magnitudes[task.num_rows];
    if (task.scope == ScaleScope::block128) largest = task.magnitudes[row / kBlockSide];
    const float scale = task.row_scales != nullptr ? task.row_scales[row] : scale_of(task.element, largest);
    if (thread_idx() == 0 && task.at.num_scales == 1) task.scales[task.first_row + row] = scale;
    return store_words(task, row, 0, task.at.num_words, {scale, -7.0F}, thread_idx(), kThreads);
  }
  const std::int64_t group_words = task.scale_group / task.at.word_inputs;
  for (std::int64_t group = warp_idx(); group < task.at.num_scales; group += kWarps) {
    const std::int64_t begin = group * task.scale_group;
    const std::int64_t end = begin + task.scale_group < task.at.in ? begin + task.scale_group : task.at.in;
    std::uint32_t largest = warp_max(share_of_largest(task, row, begin, end, lane_idx(), 32));
    note(largest, task.not_finite);
    if (task.scope == ScaleScope::block128) largest = task.magnitudes[row / kBlockSide * task.at.num_scales + group];
    const bool searches = task.element == Element::int4 && task.scale_rule == quant::ScaleRule::least_squares;
    const quant::Int4Scale scale = searches ? int4_scale(task, row, begin, end, largest)
                                            : quant::Int4Scale{scale_of(task.element, largest), -7.0F};
    if (lane_idx() == 0) task.scales[group * task.at.rows + task.first_row + row] = scale.scale;
    const std::int64_t end_word =
        (group + 1) * group_words < task.at.num_words ? (group + 1) * group_words : task.at.num_words;
    store_words(task, row, group * group_words, end_word, scale, lane_idx(), 32);
  }
}

QRL_KERNEL void rotate_weights_kernel(RotateWeightsTask task) {
  wait_for_kernel_before();
  const int in = static_cast<int>(task.in), stride = static_cast<int>(round_up(task.in, kInputChunk));
  const float* from = task.weights + block_x() * task.in;
  float* to = task.to + block_x() * task.in;
  for (int first = 4 * thread_idx(); first < stride; first += 4 * kThreads) {
    Quad quad = quads::widen(quads::load<false>(from, first, in), true);
    for (int e = 0; task.input_factors != nullptr && e < 4 && first + e < in; ++e)
      quad.at[e] *= task.input_factors[first + e];
    rotate_quad(task.rotation, quad);
    quads::store<false>(to, first, in, quad);
  }
}

/// Number of elements per block, for tensors without rows.
constexpr std::int64_t kSegment = 8 * kThreads;

QRL_KERNEL void round_table_kernel(StoreTask task) {
  wait_for_kernel_before();
  const std::int64_t begin = block_x() * kSegment;
  const std::int64_t end = begin + kSegment < task.count ? begin + kSegment : task.count;
  for (std::int64_t i = begin + thread_idx(); i < end; i += kThreads) {
    note(magnitude_of(task.values[i]), task.not_finite);
    static_cast<std::uint16_t*>(task.to)[i] = bf16_of(task.values[i]);
  }
}

QRL_KERNEL void store_vector_kernel(StoreTask task) {
  wait_for_kernel_before();
  const std::int64_t begin = block_x() * kSegment;
  const std::int64_t end = begin + kSegment < task.count ? begin + kSegment : task.count;
  for (std::int64_t i = begin + thread_idx(); i < end; i += kThreads) {
    const float stored = task.values[i], value = task.offset == 0 ? stored : stored + task.offset;
    note(magnitude_of(value), task.not_finite);
    static_cast<float*>(task.to)[i] = task.divisors != nullptr ? value / task.divisors[i] : value;
  }
}

QRL_KERNEL void place_rows_kernel(PlaceTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  for (std::int64_t i = thread_idx(); i < task.width; i += kThreads) {
    const float value = task.values[row * task.width + i];
    note(magnitude_of(value), task.not_finite);
    task.to[row * task.stride + i] = bf16_of(value * task.factor);
  }
}

QRL_DEVICE void store(void* to, bool to_f32, std::int64_t at, float value) {
  if (to_f32) static_cast<float*>(to)[at] = value;
  else static_cast<std::uint16_t*>(to)[at] = bf16_of(value);
}

QRL_DEVICE float number_of(Element element, std::uint32_t bits) {
  if (element == Element::fp8_e4m3) return float_of_fp8(static_cast<std::uint8_t>(bits & 0xffU));
  return static_cast<float>(static_cast<std::int8_t>(bits & 0xffU));
}

/// Stores a row of [*, width] rotated back. quad_at(first) returns numbers first … first + 3; those beyond the width
/// are not stored. All threads of the block must call it.
template <class QuadAt>
QRL_DEVICE void store_row(const RowRotation& rotation, std::int64_t row, int width, void* to, bool to_f32,
                          QuadAt quad_at) {
  const int stride = static_cast<int>(round_up(width, kInputChunk));  // whole warps rotate
  for (int first = 4 * thread_idx(); first < stride; first += 4 * kThreads) {
    Quad quad = first < width ? quad_at(first) : Quad{};
    rotate_quad(rotation, quad);
    for (int e = 0; e < 4; ++e) {
      if (first + e < width) store(to, to_f32, row * width + first + e, quad.at[e]);
    }
  }
}

/// Returns numbers first … first + 3 of a row of quantized values, without their scale. Only bf16 rows may end at
/// `width`; other rows are padded.
QRL_DEVICE Quad quad_of(Element element, WordOrder order, const void* row, int first, int width) {
  if (element == Element::bf16)
    return quads::widen(quads::load<false>(static_cast<const std::uint16_t*>(row), first, width), false);
  const auto* words = static_cast<const std::uint32_t*>(row);
  Quad quad;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    quad.at[e] = element == Element::int4 ? static_cast<float>(int4_at(order, words[first / 8], first % 8 + e))
                                          : number_of(element, words[first / 4] >> (8 * e));
  }
  return quad;
}

QRL_KERNEL void dequantize_weights_kernel(DequantizeWeightsTask task) {
  wait_for_kernel_before();
  const MatrixLayout& at = task.w.at;
  const std::int64_t row = block_x();
  const int in = static_cast<int>(at.in), group = static_cast<int>(task.scale_group);
  store_row(task.rotation, row, in, task.to, task.to_f32, [&](int first) {
    Quad quad = quad_of(task.element, task.order, task.w.quantized + row * at.row_bytes, first, in);
    if (at.num_scales == 0) return quad;
    const float scale = task.w.scales[first / group * at.rows + row];
#pragma unroll
    for (float& number : quad.at) number *= scale;
    return quad;
  });
}

QRL_KERNEL void dequantize_rows_kernel(DequantizeRowsTask task) {
  wait_for_kernel_before();
  const QuantizedRows& x = task.x;
  const std::int64_t row = block_x();
  const int width = static_cast<int>(x.width), group = static_cast<int>(x.scale_group);
  const auto* values =
      static_cast<const std::uint8_t*>(x.quantized) + row * x.stride * (x.element == Element::bf16 ? 2 : 1);
  store_row(x.rotation, row, width, task.to, task.to_f32, [&](int first) {
    Quad quad = quad_of(x.element, WordOrder::plain, values, first, width);
    if (x.scales == nullptr) return quad;
    const float scale = x.scales[row * x.num_scales() + first / group];
#pragma unroll
    for (float& number : quad.at) number *= scale;
    return quad;
  });
}

}  // namespace

std::int64_t num_magnitudes(quant::ScaleScope scope, std::int64_t num_rows, std::int64_t num_scales) {
  if (scope == ScaleScope::tensor) return num_rows + 1;
  return scope == ScaleScope::block128 ? ceil_div(num_rows, kBlockSide) * num_scales : 0;
}

void quantize_weights(const QuantizeWeightsTask& task, const Stream& stream) {
  if (task.scope == ScaleScope::tensor) {
    launch(row_magnitudes_kernel, {task.num_rows}, kThreads, kExchangeBytes, stream, task);
    launch(tensor_magnitude_kernel, {}, kThreads, kExchangeBytes, stream, task);
  } else if (task.scope == ScaleScope::block128) {
    launch(block_magnitudes_kernel, {ceil_div(task.num_rows, kBlockSide), task.at.num_scales}, kThreads, kExchangeBytes,
           stream, task);
  }
  launch(quantize_weights_kernel, {task.num_rows}, kThreads, kExchangeBytes, stream, task);
}

void rotate_weights(const RotateWeightsTask& task, const Stream& stream) {
  launch(rotate_weights_kernel, {task.num_rows}, kThreads, 0, stream, task);
}

void round_table(const StoreTask& task, const Stream& stream) {
  launch(round_table_kernel, {ceil_div(task.count, kSegment)}, kThreads, 0, stream, task);
}
void store_vector(const StoreTask& task, const Stream& stream) {
  launch(store_vector_kernel, {ceil_div(task.count, kSegment)}, kThreads, 0, stream, task);
}

void place_rows(const PlaceTask& task, const Stream& stream) {
  launch(place_rows_kernel, {task.num_rows}, kThreads, 0, stream, task);
}

void dequantize_weights(const DequantizeWeightsTask& task, const Stream& stream) {
  launch(dequantize_weights_kernel, {task.w.at.out}, kThreads, 0, stream, task);
}
void dequantize_rows(const DequantizeRowsTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(dequantize_rows_kernel, {num_rows}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

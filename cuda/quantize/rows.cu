// Kernels that take a row at a time, a block or several each: embedding, norm, activation, quantizing; and the host's
// panels to rows. With few rows they are limited by latency: a block that takes a whole row has as many threads as
// there are (layout.h, row_threads), and a thread issues all its loads before it uses the first.
#include "cuda/quantize/row_block.cuh"
#include "cuda/quantize/row_quads.cuh"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// The scale of values whose largest magnitude has these bits: NaN when that is not finite, so that it shows.
QRL_DEVICE float scale_of(std::uint32_t magnitude, float max_magnitude) {
  return magnitude < kInfinityBits ? float_of(magnitude) / max_magnitude : float_of(kNanBits);
}

QRL_DEVICE std::uint32_t quantized_bits(const QuantizedRows& out, float value, float scale) {
  if (out.element == quant::Element::fp8_e4m3) return scale == 0 ? 0U : fp8_of(value / scale);
  // With a scale of zero or NaN the quantized values are zero.
  return scale > 0 ? static_cast<std::uint8_t>(quantize_to_int(value, scale, 127.0F)) : 0U;
}

/// Four values rounded to bf16, of which the first `count` mean something; the others are zero.
QRL_DEVICE void store_bf16(std::uint16_t* to, std::int64_t count, const Quad& values) {
  std::uint16_t rounded[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) rounded[e] = e < count ? bf16_of(values.at[e]) : std::uint16_t{0};
  *reinterpret_cast<quads::TwoWords*>(to) = {{rounded[0] | static_cast<std::uint32_t>(rounded[1]) << 16,
                                              rounded[2] | static_cast<std::uint32_t>(rounded[3]) << 16}};
}

/// Four quantized values from element `first` on; those beyond the width are zero, whatever the scale.
QRL_DEVICE void store_quantized(const QuantizedRows& out, std::int64_t row, std::int64_t first, const Quad& values,
                                float scale) {
  const std::int64_t to = row * out.stride + first;
  if (out.element == quant::Element::bf16)
    return store_bf16(static_cast<std::uint16_t*>(out.quantized) + to, out.width - first, values);
  std::uint32_t word = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e)
    word |= (first + e < out.width ? quantized_bits(out, values.at[e], scale) : 0U) << (8 * e);
  *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(out.quantized) + to) = word;
}

QRL_DEVICE std::uint32_t largest_of(const Quad& values, std::uint32_t largest) {
  for (const float value : values.at) {
    const std::uint32_t size = magnitude_of(value);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/// Of a row's elements those that a block takes: all; or, where no scale spans more, some chunks of 128.
struct Segment {
  std::int64_t begin, end;  ///< multiples of 128; zeros up to the row's stride included
};
constexpr std::int64_t kSegment = 4 * kThreads;
static_assert(kSegment % kInputChunk == 0);

QRL_HD bool has_row_scale(const QuantizedRows& out) {
  return out.element != quant::Element::bf16 && out.scale_group == out.width;
}
QRL_DEVICE Segment own_segment(const QuantizedRows& out) {
  if (has_row_scale(out)) return {0, out.stride};
  const std::int64_t begin = block_y() * kSegment;
  return {begin, begin + kSegment < out.stride ? begin + kSegment : out.stride};
}
/// Blocks a row, and floats of shared memory that each has its values in.
std::int64_t num_segments(const QuantizedRows& out) { return has_row_scale(out) ? 1 : ceil_div(out.stride, kSegment); }
std::int64_t segment_size(const QuantizedRows& out) { return has_row_scale(out) ? out.stride : kSegment; }
int block_threads(const QuantizedRows& out) { return has_row_scale(out) ? row_threads(out.width) : kThreads; }

/// A block quantizes a segment of a row: its values in shared memory, from the segment's first on, all written and
/// waited for, zero beyond the width. `wide`: QuantizeTask's.
template <int kBlockThreads>
QRL_DEVICE void quantize_values(const float* values, const QuantizedRows& out, std::uint16_t* wide, std::int64_t row,
                                const Segment& segment, float* exchange) {
  const auto quad_at = [&](std::int64_t first) {
    return *reinterpret_cast<const Quad*>(values + first - segment.begin);
  };
  const std::int64_t begin = segment.begin + 4 * thread_idx();
  if (wide != nullptr) {
    for (std::int64_t first = begin; first < segment.end; first += 4 * kBlockThreads)
      store_bf16(wide + row * out.stride + first, out.width - first, quad_at(first));
  }
  if (out.element == quant::Element::bf16) {
    for (std::int64_t first = begin; first < segment.end; first += 4 * kBlockThreads)
      store_quantized(out, row, first, quad_at(first), 1);
    return;
  }
  const float max_magnitude = out.element == quant::Element::int8 ? 127.0F : 448.0F;
  if (has_row_scale(out)) {
    std::uint32_t largest = 0;
    for (std::int64_t first = begin; first < segment.end; first += 4 * kBlockThreads)
      largest = largest_of(quad_at(first), largest);
    const float scale = scale_of(block_max<kBlockThreads / 32>(largest, exchange), max_magnitude);
    if (thread_idx() == 0) out.scales[row] = scale;
    for (std::int64_t first = begin; first < segment.end; first += 4 * kBlockThreads)
      store_quantized(out, row, first, quad_at(first), scale);
    return;
  }
  // A warp takes a chunk of 128, a lane four of its elements.
  const std::int64_t num_scales = out.num_scales();
  for (std::int64_t chunk = segment.begin / kInputChunk + warp_idx(); chunk * kInputChunk < segment.end;
       chunk += kBlockThreads / 32) {
    const std::int64_t first = chunk * kInputChunk + 4 * lane_idx();
    const Quad quad = quad_at(first);
    const float scale = scale_of(warp_max(largest_of(quad, 0)), max_magnitude);
    if (lane_idx() == 0 && chunk < num_scales) out.scales[row * num_scales + chunk] = scale;
    store_quantized(out, row, first, quad, scale);
  }
}

/// Shared memory: a float a warp to exchange, then values.
constexpr int kExchange = kWideRowThreads / 32;
QRL_DEVICE float* exchange_memory() { return reinterpret_cast<float*>(shared_memory()); }
QRL_DEVICE float* value_memory() { return reinterpret_cast<float*>(shared_memory()) + kExchange; }
std::size_t shared_bytes_of(std::int64_t num_values) {
  return static_cast<std::size_t>(num_values + kExchange) * sizeof(float);
}

/// A block a row's segment.
QRL_KERNEL void embed_kernel(EmbedTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), first = block_y() * kSegment + 4 * thread_idx();
  std::int32_t token = task.tokens[row];
  if (token < 0) token = task.sampled[-1 - token];
  if (token < 0) token = 0;
  const std::uint16_t* from = task.table_VD + static_cast<std::int64_t>(token) * task.width;
  store_quad(task.x + row * task.width, first, task.width, load_quad(from, first, task.width));
}

template <int kBlockThreads>
QRL_KERNEL_OF(kBlockThreads, 1)
void norm_quantize_kernel(NormTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kBlockThreads, kBlockThreads == kThreads ? 4 : 2>;
  const QuantizedRows& out = task.out;
  const std::int64_t row = block_x(), width = out.width;
  const std::int64_t source = task.row_ids == nullptr ? row : static_cast<std::int64_t>(task.row_ids[row]);
  float* x = task.x + source * width;
  float* values = value_memory();
  const bool adds = task.added.values != nullptr, adds_bias = adds && task.added_bias != nullptr;
  float squares = 0;
  for (std::int64_t begin = Own::begin(); begin < out.stride; begin += Own::kStep) {
    quads::Raw entering[Own::kCount], branch[Own::kCount] = {}, bias[Own::kCount] = {};
    Own::load(begin, entering, [&](std::int64_t first) { return quads::load(x, first, width); });
    if (adds)
      Own::load(begin, branch, [&](std::int64_t first) { return quads::load(task.added, source, 0, first, width); });
    if (adds_bias)
      Own::load(begin, bias, [&](std::int64_t first) { return quads::load(task.added_bias, first, width); });
    Own::each(begin, out.stride, [&](int i, std::int64_t first) {
      Quad quad = quads::widen(entering[i], true);
      if (adds) {
        const Quad added = quads::widen(branch[i], task.added.is_f32), added_bias = quads::widen(bias[i], true);
#pragma unroll
        for (int e = 0; e < 4; ++e) quad.at[e] += adds_bias ? added.at[e] + added_bias.at[e] : added.at[e];
        if (task.row_ids == nullptr) store_quad(x, first, width, quad);
      }
      *reinterpret_cast<Quad*>(values + first) = quad;
#pragma unroll
      for (int e = 0; e < 4; ++e) squares = fmaf(quad.at[e], quad.at[e], squares);
    });
  }
  const float mean = block_sum<kBlockThreads / 32>(squares, exchange_memory()) / static_cast<float>(width);
  const float inverse = 1.0F / sqrtf(mean + task.eps);
  for (std::int64_t begin = Own::begin(); begin < out.stride; begin += Own::kStep) {
    quads::Raw gains[Own::kCount];
    Own::load(begin, gains, [&](std::int64_t first) { return quads::load(task.gain, first, width); });
    Own::each(begin, out.stride, [&](int i, std::int64_t first) {
      Quad& quad = *reinterpret_cast<Quad*>(values + first);  // this thread's own
      const Quad gain = quads::widen(gains[i], true);
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.at[e] = quad.at[e] * inverse * gain.at[e];
    });
  }
  sync_block();
  // A row's scales and quantized values are one block's, whatever spans them: the norm has the row anyway.
  quantize_values<kBlockThreads>(values, out, task.wide, row, {0, out.stride}, exchange_memory());
}

/// A block a row's segment, as of embed.
QRL_KERNEL void add_kernel(AddTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), first = block_y() * kSegment + 4 * thread_idx();
  Quad sums = load_quad(task.x + row * task.width, first, task.width);
  const Quad added = load_quad(task.added, row, 0, first, task.width);
  for (int e = 0; e < 4; ++e) sums.at[e] += added.at[e];
  store_quad(task.sums + row * task.width, first, task.width, sums);
}

template <int kBlockThreads>
QRL_KERNEL_OF(kBlockThreads, 1)
void quantize_kernel(QuantizeTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kBlockThreads, 4>;
  const std::int64_t row = block_x(), width = task.out.width;
  const Segment segment = own_segment(task.out);
  float* values = value_memory();
  for (std::int64_t begin = segment.begin + Own::begin(); begin < segment.end; begin += Own::kStep) {
    quads::Raw x[Own::kCount];
    Own::load(begin, x, [&](std::int64_t first) { return quads::load(task.x + row * width, first, width); });
    Own::each(begin, segment.end, [&](int i, std::int64_t first) {
      *reinterpret_cast<Quad*>(values + first - segment.begin) = quads::widen(x[i], true);
    });
  }
  sync_block();
  quantize_values<kBlockThreads>(values, task.out, task.wide, row, segment, exchange_memory());
}

template <int kBlockThreads>
QRL_KERNEL_OF(kBlockThreads, 1)
void swiglu_quantize_kernel(SwigluTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kBlockThreads, 4>;
  const std::int64_t row = block_x(), width = task.out.width;
  const Segment segment = own_segment(task.out);
  float* values = value_memory();
  for (std::int64_t begin = segment.begin + Own::begin(); begin < segment.end; begin += Own::kStep) {
    quads::Raw gates[Own::kCount], ups[Own::kCount];
    Own::load(begin, gates, [&](std::int64_t first) { return quads::load(task.halves, row, 0, first, width); });
    Own::load(begin, ups, [&](std::int64_t first) { return quads::load(task.halves, row, width, first, width); });
    Own::each(begin, segment.end, [&](int i, std::int64_t first) {
      const Quad gate = quads::widen(gates[i], task.halves.is_f32);
      Quad quad = quads::widen(ups[i], task.halves.is_f32);
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.at[e] = gate.at[e] / (1.0F + expf(-gate.at[e])) * quad.at[e];
      *reinterpret_cast<Quad*>(values + first - segment.begin) = quad;
    });
  }
  sync_block();
  quantize_values<kBlockThreads>(values, task.out, task.wide, row, segment, exchange_memory());
}

/// A block a row of words; what no host word has is zero already.
QRL_KERNEL void repack_kernel(RepackTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  for (std::int64_t w = thread_idx(); w < task.at.num_words; w += kThreads) {
    const std::uint32_t word = device_word(task.order, task.panels[host_word_at(row, w, task.at.num_words)]);
    reinterpret_cast<std::uint32_t*>(task.quantized + row * task.at.row_bytes)[w] = word;
  }
}

}  // namespace

void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(embed_kernel, {num_rows, ceil_div(task.width, kSegment)}, kThreads, 0, stream, task);
}
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream) {
  const int threads = row_threads(task.out.width);
  launch(threads == kThreads ? norm_quantize_kernel<kThreads> : norm_quantize_kernel<kWideRowThreads>, {num_rows},
         threads, shared_bytes_of(task.out.stride), stream, task);
}
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(add_kernel, {num_rows, ceil_div(task.width, kSegment)}, kThreads, 0, stream, task);
}
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream) {
  const int threads = block_threads(task.out);
  launch(threads == kThreads ? quantize_kernel<kThreads> : quantize_kernel<kWideRowThreads>,
         {num_rows, num_segments(task.out)}, threads, shared_bytes_of(segment_size(task.out)), stream, task);
}
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream) {
  const int threads = block_threads(task.out);
  launch(threads == kThreads ? swiglu_quantize_kernel<kThreads> : swiglu_quantize_kernel<kWideRowThreads>,
         {num_rows, num_segments(task.out)}, threads, shared_bytes_of(segment_size(task.out)), stream, task);
}
void repack(const RepackTask& task, const Stream& stream) {
  launch(repack_kernel, {task.at.out}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

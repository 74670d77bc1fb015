// Kernels that take a row at a time, a block or several each: embedding, norm, activation, encoding; and the host's
// panels to rows.
#include "kernels.h"
#include "row_block.cuh"
#include "row_quads.cuh"
#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// The scale of codes whose largest |value| has these bits: NaN when that is not finite, so that it shows.
QRL_DEVICE float scale_of(std::uint32_t magnitude, float max_code) {
  return magnitude < kInfinityBits ? float_of(magnitude) / max_code : float_of(kNanBits);
}

QRL_DEVICE std::uint32_t code_of(const EncodedRows& out, float value, float scale) {
  if (out.code == quant::Code::fp8_e4m3) return scale == 0 ? 0U : fp8_of(value / scale);
  // A scale that is zero or NaN has codes of zero.
  return scale > 0 ? static_cast<std::uint8_t>(int_code_of(value, scale, 127.0F)) : 0U;
}

/// Four codes from element `first` on; those beyond the width are zero, whatever the scale.
QRL_DEVICE void store_codes(const EncodedRows& out, std::int64_t row, std::int64_t first, const Quad& values,
                            float scale) {
  const std::int64_t to = row * out.stride + first;
  if (out.code == quant::Code::bf16) {
    std::uint16_t codes[4];
    for (int e = 0; e < 4; ++e) codes[e] = first + e < out.width ? bf16_of(values.at[e]) : std::uint16_t{0};
    *reinterpret_cast<quads::TwoWords*>(static_cast<std::uint16_t*>(out.codes) + to) = {
        {codes[0] | static_cast<std::uint32_t>(codes[1]) << 16, codes[2] | static_cast<std::uint32_t>(codes[3]) << 16}};
    return;
  }
  std::uint32_t word = 0;
  for (int e = 0; e < 4; ++e) word |= (first + e < out.width ? code_of(out, values.at[e], scale) : 0U) << (8 * e);
  *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(out.codes) + to) = word;
}

QRL_DEVICE std::uint32_t largest_of(const Quad& values, std::uint32_t largest) {
  for (const float value : values.at) {
    const std::uint32_t size = magnitude_of(value);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/// Of a row's elements those that a block takes: all; or, where no scale spans more, some runs of 128.
struct Stretch {
  std::int64_t begin, end;  ///< multiples of 128; zeros up to the row's stride included
};
constexpr std::int64_t kStretch = 4 * kThreads;
static_assert(kStretch % kInputRun == 0);

QRL_HD bool has_row_scale(const EncodedRows& out) {
  return out.code != quant::Code::bf16 && out.scale_run == out.width;
}
QRL_DEVICE Stretch own_stretch(const EncodedRows& out) {
  if (has_row_scale(out)) return {0, out.stride};
  const std::int64_t begin = block_y() * kStretch;
  return {begin, begin + kStretch < out.stride ? begin + kStretch : out.stride};
}
/// Blocks a row, and floats of shared memory that each has its values in.
std::int64_t num_stretches(const EncodedRows& out) { return has_row_scale(out) ? 1 : ceil_div(out.stride, kStretch); }
std::int64_t stretch_size(const EncodedRows& out) { return has_row_scale(out) ? out.stride : kStretch; }

/// A block encodes a stretch of a row: its values in shared memory, from the stretch's first on, all written and waited
/// for, zero beyond the width.
QRL_DEVICE void encode_values(const float* values, const EncodedRows& out, std::int64_t row, const Stretch& stretch,
                              float* exchange) {
  const auto quad_at = [&](std::int64_t first) {
    return *reinterpret_cast<const Quad*>(values + first - stretch.begin);
  };
  const std::int64_t begin = stretch.begin + 4 * thread_idx();
  if (out.code == quant::Code::bf16) {
    for (std::int64_t first = begin; first < stretch.end; first += 4 * kThreads)
      store_codes(out, row, first, quad_at(first), 1);
    return;
  }
  const float max_code = out.code == quant::Code::int8 ? 127.0F : 448.0F;
  if (has_row_scale(out)) {
    std::uint32_t largest = 0;
    for (std::int64_t first = begin; first < stretch.end; first += 4 * kThreads)
      largest = largest_of(quad_at(first), largest);
    const float scale = scale_of(block_max(largest, exchange), max_code);
    if (thread_idx() == 0) out.scales[row] = scale;
    for (std::int64_t first = begin; first < stretch.end; first += 4 * kThreads)
      store_codes(out, row, first, quad_at(first), scale);
    return;
  }
  // A warp a run of 128, a lane four of it.
  const std::int64_t num_scales = out.num_scales();
  for (std::int64_t run = stretch.begin / kInputRun + warp_idx(); run * kInputRun < stretch.end; run += kWarps) {
    const std::int64_t first = run * kInputRun + 4 * lane_idx();
    const Quad quad = quad_at(first);
    const float scale = scale_of(warp_max(largest_of(quad, 0)), max_code);
    if (lane_idx() == 0 && run < num_scales) out.scales[row * num_scales + run] = scale;
    store_codes(out, row, first, quad, scale);
  }
}

/// Shared memory: kWarps floats to exchange, then values.
QRL_DEVICE float* exchange_memory() { return reinterpret_cast<float*>(shared_memory()); }
QRL_DEVICE float* value_memory() { return reinterpret_cast<float*>(shared_memory()) + kWarps; }
std::size_t shared_bytes_of(std::int64_t num_values) {
  return static_cast<std::size_t>(num_values + kWarps) * sizeof(float);
}

/// A block a row's stretch.
QRL_KERNEL void embed_kernel(EmbedTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), first = block_y() * kStretch + 4 * thread_idx();
  std::int32_t token = task.tokens[row];
  if (token < 0) token = task.drawn[-1 - token];
  if (token < 0) token = 0;
  const std::uint16_t* from = task.table_VD + static_cast<std::int64_t>(token) * task.width;
  store_quad(task.x + row * task.width, first, task.width, load_quad(from, first, task.width));
}

QRL_KERNEL void norm_encode_kernel(NormTask task) {
  wait_for_kernel_before();
  const EncodedRows& out = task.out;
  const std::int64_t row = block_x(), width = out.width;
  const std::int64_t source = task.row_ids == nullptr ? row : static_cast<std::int64_t>(task.row_ids[row]);
  float* x = task.x + source * width;
  float* values = value_memory();
  const std::int64_t begin = 4 * thread_idx();
  float squares = 0;
  for (std::int64_t first = begin; first < out.stride; first += 4 * kThreads) {
    Quad quad = load_quad(x, first, width);
    if (task.added.values != nullptr) {
      const Quad added = load_quad(task.added, source, 0, first, width);
      const Quad bias = task.added_bias != nullptr ? load_quad(task.added_bias, first, width) : Quad{};
      for (int e = 0; e < 4; ++e) quad.at[e] += task.added_bias != nullptr ? added.at[e] + bias.at[e] : added.at[e];
      if (task.row_ids == nullptr) store_quad(x, first, width, quad);
    }
    *reinterpret_cast<Quad*>(values + first) = quad;
    for (const float value : quad.at) squares = fmaf(value, value, squares);
  }
  const float mean = block_sum(squares, exchange_memory()) / static_cast<float>(width);
  const float inverse = 1.0F / sqrtf(mean + task.eps);
  for (std::int64_t first = begin; first < out.stride; first += 4 * kThreads) {
    Quad& quad = *reinterpret_cast<Quad*>(values + first);  // this thread's own
    const Quad gain = load_quad(task.gain, first, width);
    for (int e = 0; e < 4; ++e) quad.at[e] = quad.at[e] * inverse * gain.at[e];
  }
  sync_block();
  // A row's scales and codes are one block's, whatever spans them: the norm has the row anyway.
  encode_values(values, out, row, {0, out.stride}, exchange_memory());
}

/// A block a row's stretch, as of embed.
QRL_KERNEL void add_kernel(AddTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), first = block_y() * kStretch + 4 * thread_idx();
  Quad sums = load_quad(task.x + row * task.width, first, task.width);
  const Quad added = load_quad(task.added, row, 0, first, task.width);
  for (int e = 0; e < 4; ++e) sums.at[e] += added.at[e];
  store_quad(task.sums + row * task.width, first, task.width, sums);
}

QRL_KERNEL void encode_kernel(EncodeTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), width = task.out.width;
  const Stretch stretch = own_stretch(task.out);
  float* values = value_memory();
  for (std::int64_t first = stretch.begin + 4 * thread_idx(); first < stretch.end; first += 4 * kThreads)
    *reinterpret_cast<Quad*>(values + first - stretch.begin) = load_quad(task.x + row * width, first, width);
  sync_block();
  encode_values(values, task.out, row, stretch, exchange_memory());
}

QRL_KERNEL void swiglu_encode_kernel(SwigluTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), width = task.out.width;
  const Stretch stretch = own_stretch(task.out);
  float* values = value_memory();
  for (std::int64_t first = stretch.begin + 4 * thread_idx(); first < stretch.end; first += 4 * kThreads) {
    const Quad gate = load_quad(task.gate_up, row, 0, first, width);
    Quad quad = load_quad(task.gate_up, row, width, first, width);
    for (int e = 0; e < 4; ++e) quad.at[e] = gate.at[e] / (1.0F + expf(-gate.at[e])) * quad.at[e];
    *reinterpret_cast<Quad*>(values + first - stretch.begin) = quad;
  }
  sync_block();
  encode_values(values, task.out, row, stretch, exchange_memory());
}

/// A block a row of words; what no host word has is zero already.
QRL_KERNEL void repack_kernel(RepackTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  for (std::int64_t w = thread_idx(); w < task.at.num_words; w += kThreads) {
    const std::uint32_t word = device_word(task.order, task.panels[host_word_at(row, w, task.at.num_words)]);
    reinterpret_cast<std::uint32_t*>(task.codes + row * task.at.row_bytes)[w] = word;
  }
}

}  // namespace

void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(embed_kernel, {num_rows, ceil_div(task.width, kStretch)}, kThreads, 0, stream, task);
}
void norm_encode(const NormTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(norm_encode_kernel, {num_rows}, kThreads, shared_bytes_of(task.out.stride), stream, task);
}
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(add_kernel, {num_rows, ceil_div(task.width, kStretch)}, kThreads, 0, stream, task);
}
void encode(const EncodeTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(encode_kernel, {num_rows, num_stretches(task.out)}, kThreads, shared_bytes_of(stretch_size(task.out)), stream,
         task);
}
void swiglu_encode(const SwigluTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(swiglu_encode_kernel, {num_rows, num_stretches(task.out)}, kThreads, shared_bytes_of(stretch_size(task.out)),
         stream, task);
}
void repack(const RepackTask& task, const Stream& stream) {
  launch(repack_kernel, {task.at.out}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

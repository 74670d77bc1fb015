// Implements rows.h with one or several blocks per row.
#include <type_traits>

#include "cuda/quantize/rotate.cuh"
#include "cuda/quantize/row_quads.cuh"
#include "cuda/quantize/rows.h"
#include "cuda/runtime/row_block.cuh"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Selects a kernel's output format: the element type, and for fp8_chunks one scale per 128 numbers instead of one per
/// row. `any` reads the format at run time; the others require rows of whole quads (row_quads.cuh).
enum class Rounding : std::uint8_t { any, bf16, int8, fp8, fp8_chunks };

QRL_HD bool has_row_scale(const QuantizedRows& out) {
  return out.element != quant::Element::bf16 && out.scale_group == out.width;
}
template <Rounding kRounding>
QRL_DEVICE bool has_row_scale(const QuantizedRows& out) {
  if constexpr (kRounding == Rounding::any) return has_row_scale(out);
  return kRounding == Rounding::int8 || kRounding == Rounding::fp8;
}
template <Rounding kRounding>
QRL_DEVICE quant::Element element_of(const QuantizedRows& out) {
  if constexpr (kRounding == Rounding::any) return out.element;
  return kRounding == Rounding::bf16   ? quant::Element::bf16
         : kRounding == Rounding::int8 ? quant::Element::int8
                                       : quant::Element::fp8_e4m3;
}

QRL_DEVICE float scale_of(std::uint32_t magnitude, float max_magnitude) {
  return magnitude < kInfinityBits ? float_of(magnitude) / max_magnitude : float_of(kNanBits);
}

/// Quantizes a value by a scale for which Divisor::is_usual is false. Scale 0 gives zeros; a NaN scale gives NaN in
/// e4m3, zeros in int8.
QRL_DEVICE std::uint32_t quantized_bits(quant::Element element, float value, float scale) {
  if (element == quant::Element::fp8_e4m3) return scale == 0 ? 0U : fp8_of(value / scale);
  return scale > 0 ? static_cast<std::uint8_t>(quantize_to_int(value, scale, 127.0F)) : 0U;
}

QRL_DEVICE std::uint32_t quantized_word(quant::Element element, const Quad& values, const Divisor& scale) {
  std::uint32_t word = 0;
  if (!scale.is_usual()) {
#pragma unroll
    for (int e = 0; e < 4; ++e) word |= quantized_bits(element, values.at[e], scale.by) << (8 * e);
    return word;
  }
  float quotients[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) quotients[e] = scale.quotient(values.at[e]);
  if (element == quant::Element::fp8_e4m3) return fp8x4_of(quotients);
  // Rounds to nearest even by adding 1.5 · 2^23. No value exceeds ±127.
  std::uint32_t integers[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) integers[e] = bits_of(quotients[e] + 0x1.8p23F);
  return pick_bytes(pick_bytes(integers[0], integers[1], 0x0040), pick_bytes(integers[2], integers[3], 0x0040), 0x5410);
}

QRL_DEVICE void store_bf16(std::uint16_t* to, int count, const Quad& values) {
  quads::TwoWords words{{bf16x2_of(values.at[0], values.at[1]), bf16x2_of(values.at[2], values.at[3])}};
  if (count < 4) {
    std::uint32_t rounded[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) rounded[e] = e < count ? bf16_of(values.at[e]) : 0U;
    words = {{rounded[0] | rounded[1] << 16, rounded[2] | rounded[3] << 16}};
  }
  *reinterpret_cast<quads::TwoWords*>(to) = words;
}

QRL_DEVICE std::uint32_t largest_of(const Quad& values, std::uint32_t largest) {
#pragma unroll
  for (const float value : values.at) {
    const std::uint32_t size = magnitude_of(value);
    largest = size > largest ? size : largest;
  }
  return largest;
}

/// Describes the elements of a row that a block processes: the whole row if it has one scale, otherwise at most
/// kSegment elements.
struct Segment {
  int begin, end;  ///< multiples of 128; `end` includes the zeros up to the row's stride
};
constexpr int kSegment = 4 * kThreads;
static_assert(kSegment % kInputChunk == 0);

template <Rounding kRounding>
QRL_DEVICE Segment own_segment(const QuantizedRows& out) {
  const auto stride = static_cast<int>(out.stride);
  if (has_row_scale<kRounding>(out)) return {0, stride};
  const int begin = static_cast<int>(block_y()) * kSegment;
  return {begin, begin + kSegment < stride ? begin + kSegment : stride};
}
std::int64_t num_segments(const QuantizedRows& out) { return has_row_scale(out) ? 1 : ceil_div(out.stride, kSegment); }

/// Layout of shared memory: one float per warp for exchange, then values.
constexpr int kExchange = kWideRowThreads / 32;
QRL_DEVICE float* exchange_memory() { return reinterpret_cast<float*>(shared_memory()); }
QRL_DEVICE float* value_memory() { return reinterpret_cast<float*>(shared_memory()) + kExchange; }
std::size_t shared_bytes_of(std::int64_t num_values) {
  return static_cast<std::size_t>(num_values + kExchange) * sizeof(float);
}

/// Quantizes a segment of a row with one block. Each thread processes its own quads; a warp's quads are a chunk of 128
/// numbers. With one scale per row, quads are kept in value_memory until the scale is known.
template <int kBlockThreads, Rounding kRounding>
class RowQuantizer {
 public:
  QRL_DEVICE RowQuantizer(const QuantizedRows& out, std::uint16_t* wide, std::int64_t row, const Segment& segment)
      : out_(out),
        wide_(wide == nullptr ? nullptr : wide + row * out.stride),
        quantized_(static_cast<std::uint8_t*>(out.quantized) +
                   row * out.stride * (element_of<kRounding>(out) == quant::Element::bf16 ? 2 : 1)),
        scales_(out.scales + row * (has_row_scale<kRounding>(out) ? 1 : out.num_scales())),
        segment_(segment),
        width_(static_cast<int>(out.width)) {}

  /// Takes the quad at `first`. All lanes of a warp must call it, with adjacent quads.
  QRL_DEVICE void take(int first, Quad quad) {
    const quant::Element element = element_of<kRounding>(out_);
    if (wide_ != nullptr) store_bf16(wide_ + first, width_ - first, quad);
    rotate_quad(out_.rotation, quad);
    if (element == quant::Element::bf16)
      return store_bf16(reinterpret_cast<std::uint16_t*>(quantized_) + first, width_ - first, quad);
    if (has_row_scale<kRounding>(out_)) {
      *waiting(first) = quad;
      largest_ = largest_of(quad, largest_);
      return;
    }
    const Divisor scale(scale_of(warp_max(largest_of(quad, 0)), max_magnitude()));
    if (lane_idx() == 0 && first < width_) scales_[first / static_cast<int>(kInputChunk)] = scale.by;
    store(first, quad, scale);
  }
  QRL_DEVICE void finish() {
    if (!has_row_scale<kRounding>(out_)) return;
    const Divisor scale(scale_of(block_max<kBlockThreads / 32>(largest_, exchange_memory()), max_magnitude()));
    if (thread_idx() == 0) *scales_ = scale.by;
    for (int first = segment_.begin + 4 * thread_idx(); first < segment_.end; first += 4 * kBlockThreads)
      store(first, *waiting(first), scale);
  }

 private:
  QRL_DEVICE Quad* waiting(int first) const {
    return reinterpret_cast<Quad*>(value_memory() + (first - segment_.begin));
  }
  QRL_DEVICE float max_magnitude() const {
    return element_of<kRounding>(out_) == quant::Element::int8 ? 127.0F : 448.0F;
  }
  QRL_DEVICE void store(int first, const Quad& quad, const Divisor& scale) const {
    std::uint32_t word = quantized_word(element_of<kRounding>(out_), quad, scale);
    // Stores 0 beyond the width, even if the scale is NaN.
    const int there = width_ - first;
    if (there < 4) word = there <= 0 ? 0U : word & (0xffffffffU >> (8 * (4 - there)));
    *reinterpret_cast<std::uint32_t*>(quantized_ + first) = word;
  }

  const QuantizedRows& out_;
  std::uint16_t* wide_;
  std::uint8_t* quantized_;
  float* scales_;
  Segment segment_;
  int width_;
  std::uint32_t largest_ = 0;
};

template <bool kWhole>
QRL_KERNEL void embed_kernel(EmbedTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const int first = static_cast<int>(block_y()) * kSegment + 4 * thread_idx(), width = static_cast<int>(task.width);
  std::int32_t token = task.tokens[row];
  if (token < 0) token = task.sampled[-1 - token];
  if (token < 0) token = 0;
  const std::uint16_t* from = task.table_VD + token * task.width;
  Quad quad = quads::widen(quads::load<kWhole>(from, first, width), false);
#pragma unroll
  for (int e = 0; e < 4; ++e) quad.at[e] *= task.factor;
  quads::store<kWhole>(task.x + row * task.width, first, width, quad);
}

/// Applies RMSNorm to a row. Adds squares in the order of a block of kSumThreads threads; each thread emulates kSums of
/// them.
template <int kSumThreads, Rounding kRounding>
QRL_KERNEL_OF(kThreads, kRounding == Rounding::any ? 3 : 4)
void norm_quantize_kernel(NormTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kThreads, kWideRowThreads / kThreads>;
  constexpr bool kWhole = kRounding != Rounding::any;
  constexpr int kSums = kSumThreads / kThreads;
  static_assert(kSums == 1 || kSums == Own::kCount);
  const std::int64_t row = block_x();
  const int width = static_cast<int>(task.out.width), stride = static_cast<int>(task.out.stride);
  const std::int64_t source = task.row_ids == nullptr ? row : static_cast<std::int64_t>(task.row_ids[row]);
  float* x = task.x + source * task.out.width;
  const quads::GemmRow added(task.added, source, 0);
  float* values = value_memory();
  const bool adds = task.added.values != nullptr, adds_bias = adds && task.added_bias != nullptr;
  const bool norms = task.gain != nullptr;
  float squares[kSums] = {};
  for (int begin = Own::begin(); begin < stride; begin += Own::kStep) {
    quads::Raw entering[Own::kCount], branch[Own::kCount] = {}, bias[Own::kCount] = {};
    Own::load(begin, entering, [&](int first) { return quads::load<kWhole>(x, first, width); });
    if (adds) Own::load(begin, branch, [&](int first) { return added.load<kWhole>(first, width); });
    if (adds_bias)
      Own::load(begin, bias, [&](int first) { return quads::load<kWhole>(task.added_bias, first, width); });
    Own::each(begin, stride, [&](int i, int first) {
      Quad quad = quads::widen(entering[i], true);
      if (adds) {
        const Quad of_branch = quads::widen(branch[i], !kWhole && added.is_f32), of_bias = quads::widen(bias[i], true);
#pragma unroll
        for (int e = 0; e < 4; ++e) quad.at[e] += adds_bias ? of_branch.at[e] + of_bias.at[e] : of_branch.at[e];
        if (task.row_ids == nullptr) quads::store<kWhole>(x, first, width, quad);
      }
      *reinterpret_cast<Quad*>(values + first) = quad;
      float& sum = squares[kSums == 1 ? 0 : i];
#pragma unroll
      for (int e = 0; e < 4; ++e) sum = fmaf(quad.at[e], quad.at[e], sum);
    });
  }
  const float mean = block_sum<kThreads / 32>(squares, exchange_memory()) / static_cast<float>(width);
  const float inverse = 1.0F / sqrtf(mean + task.eps);
  RowQuantizer<kThreads, kRounding> to(task.out, task.wide, row, {0, stride});
  for (int begin = Own::begin(); begin < stride; begin += Own::kStep) {
    quads::Raw gains[Own::kCount] = {};
    if (norms) Own::load(begin, gains, [&](int first) { return quads::load<kWhole>(task.gain, first, width); });
    Own::each(begin, stride, [&](int i, int first) {
      Quad quad = *reinterpret_cast<const Quad*>(values + first);  // needs no barrier: this thread wrote it
      const Quad gain = quads::widen(gains[i], true);
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.at[e] = norms ? quad.at[e] * inverse * gain.at[e] : quad.at[e];
      to.take(first, quad);
    });
  }
  to.finish();
}

template <bool kWhole>
QRL_KERNEL void add_kernel(AddTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const int first = static_cast<int>(block_y()) * kSegment + 4 * thread_idx(), width = static_cast<int>(task.width);
  const quads::GemmRow added(task.added, row, 0);
  const quads::Raw x = quads::load<kWhole>(task.x + row * task.width, first, width);
  const Quad branch = quads::widen(added.load<kWhole>(first, width), !kWhole && added.is_f32);
  Quad sums = quads::widen(x, true);
#pragma unroll
  for (int e = 0; e < 4; ++e) sums.at[e] += branch.at[e];
  quads::store<kWhole>(task.sums + row * task.width, first, width, sums);
}

/// Returns the sum of squares of y + bias over a part of a row, in a fixed order.
QRL_DEVICE float part_squares(const GemmRows& y, const float* bias, std::int64_t row, int first, int count) {
  float squares = 0;
  for (int i = first + thread_idx(); i < first + count; i += kThreads) {
    const float value = y.at(row, i) + (bias == nullptr ? 0.0F : bias[i]);
    squares = fmaf(value, value, squares);
  }
  return block_sum<kThreads / 32>(squares, exchange_memory());
}

QRL_KERNEL void branch_kernel(BranchTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const auto width = static_cast<int>(task.width);
  float inverse = 1;
  if (task.gain != nullptr)
    inverse = 1.0F / sqrtf(part_squares(task.y, task.bias, row, 0, width) / static_cast<float>(width) + task.eps);
  for (int i = thread_idx(); i < width; i += kThreads) {
    float value = task.y.at(row, i) + (task.bias == nullptr ? 0.0F : task.bias[i]);
    if (task.gain != nullptr) value = value * inverse * task.gain[i];
    task.to[row * task.width + i] = value * task.factor;
  }
}

QRL_KERNEL void projection_kernel(ProjectionTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const bool is_key = block_y() == 1;
  const int first = is_key ? static_cast<int>(task.q) : 0, count = static_cast<int>(is_key ? task.k : task.q);
  const float mean = part_squares(task.heads, task.bias, row, first, count) / static_cast<float>(count);
  if (thread_idx() == 0) task.inverse_rms_N2[2 * row + (is_key ? 1 : 0)] = 1.0F / sqrtf(mean + task.eps);
}

template <int kOwn, Rounding kRounding>
QRL_KERNEL_OF(kThreads, kOwn == 1 ? 8 : 4)
void quantize_kernel(QuantizeTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kThreads, kOwn>;
  constexpr bool kWhole = kRounding != Rounding::any;
  const std::int64_t row = block_x();
  const auto width = static_cast<int>(task.out.width);
  const float* from = task.x + row * task.out.width;
  const Segment segment = own_segment<kRounding>(task.out);
  RowQuantizer<kThreads, kRounding> to(task.out, task.wide, row, segment);
  for (int begin = segment.begin + Own::begin(); begin < segment.end; begin += Own::kStep) {
    quads::Raw x[Own::kCount];
    Own::load(begin, x, [&](int first) { return quads::load<kWhole>(from, first, width); });
    Own::each(begin, segment.end, [&](int i, int first) { to.take(first, quads::widen(x[i], true)); });
  }
  to.finish();
}

/// Computes and quantizes SwiGLU of a row or a segment. Each thread processes kOwn quads at once. Wide rows use 512
/// threads, so that two blocks share a multiprocessor.
template <int kBlockThreads, int kOwn, Rounding kRounding>
QRL_KERNEL_OF(kBlockThreads, kOwn == 1 ? 6 : 1024 / kBlockThreads)
void swiglu_quantize_kernel(SwigluTask task) {
  wait_for_kernel_before();
  using Own = quads::Own<kBlockThreads, kOwn>;
  constexpr bool kWhole = kRounding != Rounding::any;
  const std::int64_t row = block_x();
  const auto width = static_cast<int>(task.out.width);
  const quads::GemmRow gate_row(task.halves, row, 0), up_row(task.halves, row, task.out.width);
  const Segment segment = own_segment<kRounding>(task.out);
  RowQuantizer<kBlockThreads, kRounding> to(task.out, task.wide, row, segment);
  // GELU with tanh is g · sigmoid(2z), z = √(2/π) · (g + 0.044715 g³).
  constexpr float kFirst = 1.5957691216F, kThird = kFirst * 0.044715F;
  const bool is_silu = task.activation == base::Gate::silu;
  const auto exponent = [is_silu](float g) { return is_silu ? g : g * (kFirst + kThird * (g * g)); };
  for (int begin = segment.begin + Own::begin(); begin < segment.end; begin += Own::kStep) {
    quads::Raw gates[Own::kCount], ups[Own::kCount];
    Own::load(begin, gates, [&](int first) { return gate_row.load<kWhole>(first, width); });
    Own::load(begin, ups, [&](int first) { return up_row.load<kWhole>(first, width); });
    Own::each(begin, segment.end, [&](int i, int first) {
      const Quad gate = quads::widen(gates[i], !kWhole && gate_row.is_f32);
      Quad quad = quads::widen(ups[i], !kWhole && up_row.is_f32);
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.at[e] = gate.at[e] / (1.0F + expf(-exponent(gate.at[e]))) * quad.at[e];
      to.take(first, quad);
    });
  }
  to.finish();
}

QRL_KERNEL void repack_kernel(RepackTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  for (std::int64_t w = thread_idx(); w < task.at.num_words; w += kThreads) {
    const std::uint32_t word = device_word(task.order, task.panels[host_word_at(row, w, task.at.num_words)]);
    reinterpret_cast<std::uint32_t*>(task.quantized + row * task.at.row_bytes)[w] = word;
  }
}

Rounding rounding_of(const QuantizedRows& out, const std::uint16_t* wide, bool is_whole) {
  if (!is_whole || out.width % 4 != 0 || (wide != nullptr && !quads::are_whole(wide, out.stride))) return Rounding::any;
  switch (out.element) {
    case quant::Element::bf16:
      return Rounding::bf16;
    case quant::Element::int8:
      return has_row_scale(out) ? Rounding::int8 : Rounding::any;
    default:
      return has_row_scale(out) ? Rounding::fp8 : Rounding::fp8_chunks;
  }
}

template <class Body>
void by_rounding(Rounding rounding, Body body) {
  switch (rounding) {
    case Rounding::any:
      return body(std::integral_constant<Rounding, Rounding::any>());
    case Rounding::bf16:
      return body(std::integral_constant<Rounding, Rounding::bf16>());
    case Rounding::int8:
      return body(std::integral_constant<Rounding, Rounding::int8>());
    case Rounding::fp8:
      return body(std::integral_constant<Rounding, Rounding::fp8>());
    case Rounding::fp8_chunks:
      return body(std::integral_constant<Rounding, Rounding::fp8_chunks>());
  }
}
constexpr bool takes_rows(Rounding rounding) {
  return rounding == Rounding::any || rounding == Rounding::int8 || rounding == Rounding::fp8;
}
std::int64_t num_waiting(const QuantizedRows& out) { return has_row_scale(out) ? out.stride : 0; }

}  // namespace

void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream) {
  const bool is_whole = quads::are_whole(task.table_VD, task.width) && quads::are_whole(task.x, task.width);
  launch(is_whole ? embed_kernel<true> : embed_kernel<false>, {num_rows, ceil_div(task.width, kSegment)}, kThreads, 0,
         stream, task);
}
void norm_quantize(const NormTask& task, std::int64_t num_rows, const Stream& stream) {
  const bool is_whole = quads::are_whole(task.x, task.out.width) && quads::are_whole(task.added) &&
                        quads::are_whole(task.added_bias, 4) && quads::are_whole(task.gain, 4);
  by_rounding(rounding_of(task.out, task.wide, is_whole), [&](auto rounding) {
    launch(row_threads(task.out.width) == kThreads ? norm_quantize_kernel<kThreads, rounding.value>
                                                   : norm_quantize_kernel<kWideRowThreads, rounding.value>,
           {num_rows}, kThreads, shared_bytes_of(task.out.stride), stream, task);
  });
}
void branch_rows(const BranchTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(branch_kernel, {num_rows}, kThreads, shared_bytes_of(0), stream, task);
}
void projection_rms(const ProjectionTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(projection_kernel, {num_rows, 2}, kThreads, shared_bytes_of(0), stream, task);
}
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream) {
  const bool is_whole =
      quads::are_whole(task.x, task.width) && quads::are_whole(task.added) && quads::are_whole(task.sums, task.width);
  launch(is_whole ? add_kernel<true> : add_kernel<false>, {num_rows, ceil_div(task.width, kSegment)}, kThreads, 0,
         stream, task);
}
void quantize_rows(const QuantizeTask& task, std::int64_t num_rows, const Stream& stream) {
  const Rounding how = rounding_of(task.out, task.wide, quads::are_whole(task.x, task.out.width));
  by_rounding(how, [&](auto rounding) {
    launch(quantize_kernel < takes_rows(rounding.value) ? 4 : 1, rounding.value >, {num_rows, num_segments(task.out)},
           kThreads, shared_bytes_of(num_waiting(task.out)), stream, task);
  });
}
void swiglu_quantize(const SwigluTask& task, std::int64_t num_rows, const Stream& stream) {
  const Grid grid{num_rows, num_segments(task.out)};
  const std::size_t shared_bytes = shared_bytes_of(num_waiting(task.out));
  const bool is_wide = has_row_scale(task.out) && row_threads(task.out.width) != kThreads;
  by_rounding(rounding_of(task.out, task.wide, quads::are_whole(task.halves)), [&](auto rounding) {
    constexpr Rounding kRounding = rounding.value;
    if constexpr (takes_rows(kRounding)) {
      if (is_wide)
        return launch(swiglu_quantize_kernel<2 * kThreads, 3, kRounding>, grid, 2 * kThreads, shared_bytes, stream,
                      task);
    }
    // With 4 quads at once, the general kernel would not fit into its registers.
    constexpr int kOwn = kRounding == Rounding::any ? 2 : takes_rows(kRounding) ? 4 : 1;
    launch(swiglu_quantize_kernel<kThreads, kOwn, kRounding>, grid, kThreads, shared_bytes, stream, task);
  });
}
void repack(const RepackTask& task, const Stream& stream) {
  launch(repack_kernel, {task.at.out}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

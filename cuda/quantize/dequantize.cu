#include "base/error.h"
#include "cuda/quantize/rows.h"
#include "cuda/runtime/target.h"
#include "cuda/runtime/widen.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;

constexpr int kThreads = 256;
constexpr int kGroup = 8;   ///< numbers per 16-byte store
constexpr int kAtOnce = 4;  ///< groups that a thread loads before it uses the first
constexpr std::int64_t kBlockGroups = std::int64_t{kAtOnce} * kThreads;

struct DequantizeTask {
  const std::uint8_t* quantized;
  const float* scales;
  std::int64_t num_rows, width;                     ///< width: a multiple of 128
  std::int64_t scales_from_row, scales_from_group;  ///< distance in scales to the next row, and to the next group
  unsigned scale_inputs, num_scales;                ///< inputs per group, and groups without padding
  std::uint16_t* to;
};

template <Element element>
struct alignas(element == Element::int4 ? 4 : 8) Group {
  std::uint32_t word[element == Element::int4 ? 1 : 2];
};
struct alignas(16) Wide {
  std::uint32_t pair[kGroup / 2];
};

template <Element element>
QRL_DEVICE void floats_of(const Group<element>& group, float (&to)[kGroup]) {
  if constexpr (element == Element::int4) {
    std::uint32_t pairs[kGroup / 2];
    widen_int4<false>(group.word[0], pairs);
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      to[2 * i] = float_of(pairs[i] << 16);
      to[2 * i + 1] = float_of(pairs[i] & 0xffff0000U);
    }
  } else {
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      std::uint32_t first, second;
      widen_fp8(group.word[w], first, second);
      floats_of_f16x2(first, to[4 * w], to[4 * w + 1]);
      floats_of_f16x2(second, to[4 * w + 2], to[4 * w + 3]);
    }
  }
}

template <Element element>
QRL_KERNEL_OF(kThreads, 2)
void dequantize_kernel(DequantizeTask task) {
  wait_for_kernel_before();
  // Uses 32-bit indices, because 64-bit division takes several times longer.
  const auto row_groups = static_cast<unsigned>(task.width / kGroup);
  const unsigned num_groups = static_cast<unsigned>(task.num_rows) * row_groups,
                 first = static_cast<unsigned>(block_x() * kBlockGroups) + static_cast<unsigned>(thread_idx());
  Group<element> groups[kAtOnce];
  float scales[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const unsigned at = first + i * kThreads, row = at / row_groups,
                   scale = at % row_groups * kGroup / task.scale_inputs,
                   own = scale < task.num_scales ? scale
                                                 : task.num_scales - 1;  // padding has zeros, whatever their scale
    if (at >= num_groups) continue;
    groups[i] = reinterpret_cast<const Group<element>*>(task.quantized)[at];
    scales[i] = task.scales[row * task.scales_from_row + own * task.scales_from_group];
  }
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const unsigned at = first + i * kThreads;
    if (at >= num_groups) continue;
    float numbers[kGroup];
    floats_of<element>(groups[i], numbers);
    Wide wide;
#pragma unroll
    for (int j = 0; j < kGroup / 2; ++j)
      wide.pair[j] = bf16x2_of(numbers[2 * j] * scales[i], numbers[2 * j + 1] * scales[i]);
    reinterpret_cast<Wide*>(task.to)[at] = wide;
  }
}

template <Element element>
void run(const DequantizeTask& task, const Stream& stream) {
  const std::int64_t num_groups = task.num_rows * (task.width / kGroup);
  QRL_INVARIANT(num_groups + kBlockGroups < std::int64_t{1} << 32, "dequantize", "indices of 32 bits",
                std::to_string(num_groups));
  launch(dequantize_kernel<element>, {ceil_div(num_groups, kBlockGroups)}, kThreads, 0, stream, task);
}

}  // namespace

void dequantize_matrix(const DeviceMatrix& w, std::uint16_t* to, const Stream& stream) {
  const MatrixLayout& at = w.at;
  const quant::FormatSpec& what = quant::spec(w.format);
  QRL_INVARIANT(what.scale_inputs > 0, "dequantize", "a scale for each group of inputs", std::string(what.name));
  const DequantizeTask task{w.quantized,
                            w.scales,
                            at.rows,
                            at.width,
                            1,
                            at.rows,
                            static_cast<unsigned>(what.scale_inputs),
                            static_cast<unsigned>(at.num_scales),
                            to};
  if (what.weights == Element::int4) return run<Element::int4>(task, stream);
  return run<Element::fp8_e4m3>(task, stream);
}

void dequantize_rows(const QuantizedRows& x, std::int64_t num_rows, std::uint16_t* to, const Stream& stream) {
  QRL_INVARIANT(x.element == Element::fp8_e4m3 && x.scale_group == kInputChunk && x.stride % kInputChunk == 0,
                "dequantize", "rows of e4m3 with a scale for every 128 inputs", std::to_string(x.scale_group));
  run<Element::fp8_e4m3>({static_cast<const std::uint8_t*>(x.quantized), x.scales, num_rows, x.stride, x.num_scales(),
                          1, kInputChunk, static_cast<unsigned>(x.num_scales()), to},
                         stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

// Implements the plain GEMM: every format on the tensor cores' 16x16x16 tiles, with operands dequantized while they are
// copied into shared memory. One block computes a tile of 32 rows and 64 outputs in steps of 128 inputs, without
// overlap. Programs use streamed_gemm.cu instead.
#include <string>
#include <type_traits>

#include "base/error.h"
#include "cuda/runtime/target.h"
#include "tests/cuda/plain_gemm.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;

constexpr int kThreads = 128;
constexpr int kRows = 32;
constexpr int kOutputs = static_cast<int>(kOutputTile);
constexpr int kInputs = static_cast<int>(kInputChunk);
constexpr int kTile = 16;
constexpr int kPerThread = kRows * kOutputs / kThreads;
constexpr int kOutputStride = kOutputs + 4;

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Describes the operands of the tensor cores: bf16 with fp32 sums, or int8 with int32 sums.
struct WideUnit {
  using Bits = std::uint16_t;
  using Element = MmaBf16;
  using Sum = float;
};
struct IntUnit {
  using Bits = std::int8_t;
  using Element = MmaInt8;
  using Sum = std::int32_t;
};

/// Converts 16 quantized values, the first at `bytes`, to the unit's elements. Uses whole 16-byte loads, for int4
/// 8-byte loads.
template <class Unit, Element element>
QRL_DEVICE void decode_16(const std::uint8_t* bytes, typename Unit::Bits* to) {
  if constexpr (element == Element::bf16) {
    const auto* from = reinterpret_cast<const Words*>(bytes);
    auto* words = reinterpret_cast<Words*>(to);
    words[0] = from[0];
    words[1] = from[1];
  } else if constexpr (element == Element::int8) {
    *reinterpret_cast<Words*>(to) = *reinterpret_cast<const Words*>(bytes);
  } else if constexpr (element == Element::fp8_e4m3) {
    const Words words = *reinterpret_cast<const Words*>(bytes);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float value = float_of_fp8(static_cast<std::uint8_t>(words.word[i / 4] >> (i % 4 * 8)));
      to[i] = static_cast<std::uint16_t>(bits_of(value) >> 16);  // exact
    }
  } else {
    const auto* from = reinterpret_cast<const std::uint32_t*>(bytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t word = from[half];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if constexpr (std::is_same_v<typename Unit::Bits, std::int8_t>) {
          to[8 * half + i] = static_cast<std::int8_t>(int4_at(WordOrder::int4_for_int8, word, i));
        } else {
          const auto value = static_cast<float>(int4_at(WordOrder::int4_for_bf16, word, i));
          to[8 * half + i] = static_cast<std::uint16_t>(bits_of(value) >> 16);  // exact
        }
      }
    }
  }
}

template <Element element>
inline constexpr int kBitsOf = element == Element::bf16   ? 16
                               : element == Element::int4 ? 4
                                                          : 8;

/// Lays out the operands and the tile's sums in shared memory. A row's stride keeps 16-byte alignment and spreads rows
/// over the banks.
template <class Unit>
struct Shared {
  static constexpr int kStride = kInputs + 16 / static_cast<int>(sizeof(typename Unit::Bits));
  static constexpr std::size_t kXBytes = sizeof(typename Unit::Bits) * kRows * kStride;
  static constexpr std::size_t kWBytes = sizeof(typename Unit::Bits) * kOutputs * kStride;
  static constexpr std::size_t kBytes = kXBytes + kWBytes + sizeof(typename Unit::Sum) * kRows * kOutputStride;
};

/// scale_inputs: inputs per scale of the weights (and of x, if it has a scale per chunk); 0: a row has one.
template <class Unit, Element x_element, Element w_element, int scale_inputs>
QRL_KERNEL void gemm_kernel(GemmTask task) {
  wait_for_kernel_before();
  using S = Shared<Unit>;
  using Bits = typename Unit::Bits;
  constexpr bool chunk_scaled = scale_inputs != 0;
  constexpr int kRun = chunk_scaled ? scale_inputs : kInputs;
  auto* x_tile = reinterpret_cast<Bits*>(shared_memory());
  auto* w_tile = reinterpret_cast<Bits*>(shared_memory() + S::kXBytes);
  auto* sums = reinterpret_cast<typename Unit::Sum*>(shared_memory() + S::kXBytes + S::kWBytes);
  const std::int64_t first_output = block_x() * kOutputs, first_row = block_y() * kRows;
  const MatrixLayout& at = task.w.at;
  const std::int64_t num_steps = at.width / kInputs;

  float totals[kPerThread];
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) totals[j] = 0;
  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, typename Unit::Sum> c[kRows / kTile];
#pragma unroll
  for (auto& part : c) wmma::fill_fragment(part, typename Unit::Sum{0});

  for (std::int64_t step = 0; step < num_steps; ++step) {
    for (int chunk = thread_idx(); chunk < kRows * kInputs / 16; chunk += kThreads) {
      const int r = chunk / (kInputs / 16), k = chunk % (kInputs / 16) * 16;
      Bits* to = x_tile + r * S::kStride + k;
      if (first_row + r < task.num_rows) {
        const std::int64_t element = (first_row + r) * task.x.stride + step * kInputs + k;
        decode_16<Unit, x_element>(
            static_cast<const std::uint8_t*>(task.x.quantized) + element * kBitsOf<x_element> / 8, to);
      } else {
        for (int i = 0; i < 16; ++i) to[i] = 0;
      }
    }
    for (int chunk = thread_idx(); chunk < kOutputs * kInputs / 16; chunk += kThreads) {
      const int n = chunk / (kInputs / 16), k = chunk % (kInputs / 16) * 16;
      const std::uint8_t* from =
          task.w.quantized + (first_output + n) * at.row_bytes + (step * kInputs + k) * kBitsOf<w_element> / 8;
      decode_16<Unit, w_element>(from, w_tile + n * S::kStride + k);
    }
    sync_block();
    const auto* x_elements = reinterpret_cast<const typename Unit::Element*>(x_tile);
    const auto* w_elements = reinterpret_cast<const typename Unit::Element*>(w_tile);
    for (int begin = 0; begin < kInputs; begin += kRun) {
#pragma unroll 2  // more costs registers that spill
      for (int k = begin; k < begin + kRun; k += kTile) {
        wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, typename Unit::Element, wmma::col_major> b;
        wmma::load_matrix_sync(b, w_elements + warp_idx() * kTile * S::kStride + k, S::kStride);
#pragma unroll
        for (int m = 0; m < kRows / kTile; ++m) {
          wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, typename Unit::Element, wmma::row_major> a;
          wmma::load_matrix_sync(a, x_elements + m * kTile * S::kStride + k, S::kStride);
          wmma::mma_sync(c[m], a, b, c[m]);
        }
      }
      if (chunk_scaled || step + 1 == num_steps) {
#pragma unroll
        for (int m = 0; m < kRows / kTile; ++m) {
          wmma::store_matrix_sync(sums + m * kTile * kOutputStride + warp_idx() * kTile, c[m], kOutputStride,
                                  wmma::mem_row_major);
          wmma::fill_fragment(c[m], typename Unit::Sum{0});
        }
        sync_block();
        // Padding beyond the last scale is zero; a whole-row scale counts once.
        const std::int64_t chunk = chunk_scaled ? step * (kInputs / kRun) + begin / kRun : 0;
        const bool has_scale = task.w.scales != nullptr && chunk < at.num_scales;
        const bool x_has_chunks = task.x.scales != nullptr && task.x.scale_group == kInputs;
        const std::int64_t x_scale_stride = task.x.scales == nullptr ? 0 : x_has_chunks ? at.num_scales : 1;
#pragma unroll
        for (int j = 0; j < kPerThread; ++j) {
          const int idx = thread_idx() + j * kThreads, r = idx / kOutputs, n = idx % kOutputs;
          if (first_row + r >= task.num_rows) continue;
          float scale = 1;
          if (has_scale) scale = task.w.scales[chunk * at.rows + first_output + n];
          if (task.x.scales != nullptr && (x_has_chunks || !chunk_scaled))
            scale = task.x.scales[(first_row + r) * x_scale_stride + (x_has_chunks ? chunk : 0)] * scale;
          totals[j] = fmaf(static_cast<float>(sums[r * kOutputStride + n]), scale, totals[j]);
        }
      }
      sync_block();
    }
    sync_block();
  }

  const bool token_scale_last = chunk_scaled && task.x.scales != nullptr && task.x.scale_group != kInputs;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int idx = thread_idx() + j * kThreads, r = idx / kOutputs, n = idx % kOutputs;
    if (first_row + r >= task.num_rows) continue;
    const float value = token_scale_last ? totals[j] * task.x.scales[first_row + r] : totals[j];
    const std::int64_t to = (first_row + r) * task.y_stride + first_output + n;
    if (task.y_is_f32) static_cast<float*>(task.y)[to] = value;
    else static_cast<std::uint16_t*>(task.y)[to] = bf16_of(value);
  }
}

template <class Unit, Element x_element, Element w_element, int scale_inputs = 0>
void run(const GemmTask& task, const Stream& stream) {
  const Grid grid{task.w.at.rows / kOutputs, ceil_div(task.num_rows, kRows)};
  launch(gemm_kernel<Unit, x_element, w_element, scale_inputs>, grid, kThreads, Shared<Unit>::kBytes, stream, task);
}

}  // namespace

void plain_gemm(const GemmTask& task, const Stream& stream) {
  using quant::Format;
  switch (task.w.format) {
    case Format::f32:
      break;
    case Format::bf16:
      return run<WideUnit, Element::bf16, Element::bf16>(task, stream);
    case Format::int8:
      return run<IntUnit, Element::int8, Element::int8>(task, stream);
    case Format::fp8_tensor:
    case Format::fp8_channel:
      return run<WideUnit, Element::fp8_e4m3, Element::fp8_e4m3>(task, stream);
    case Format::fp8_block128:
      return run<WideUnit, Element::fp8_e4m3, Element::fp8_e4m3, 128>(task, stream);
    case Format::int4:
      return run<WideUnit, Element::bf16, Element::int4, 128>(task, stream);
    case Format::int4_int8:
      return run<IntUnit, Element::int8, Element::int4, 128>(task, stream);
    case Format::int4_fp8:
      return run<WideUnit, Element::fp8_e4m3, Element::int4, 128>(task, stream);
    case Format::int4_g64:
      return run<WideUnit, Element::bf16, Element::int4, 64>(task, stream);
    case Format::int4_int8_g64:
      return run<IntUnit, Element::int8, Element::int4, 64>(task, stream);
    case Format::int4_fp8_g64:
      return run<WideUnit, Element::fp8_e4m3, Element::int4, 64>(task, stream);
    case Format::int4_g32:
      return run<WideUnit, Element::bf16, Element::int4, 32>(task, stream);
    case Format::int4_int8_g32:
      return run<IntUnit, Element::int8, Element::int4, 32>(task, stream);
    case Format::int4_fp8_g32:
      return run<WideUnit, Element::fp8_e4m3, Element::int4, 32>(task, stream);
  }
  base::fail_internal("plain GEMM", "a format that the device has", std::string(name(task.w.format)));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

// Owns the entry to benchmarks of a GPU's GEMMs, attention and whole ticks, beside the limits of its memory and its
// matrix units. Knows nothing of how they are computed. bench/no_cuda.cpp stands in without CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

/// Device memory that operands are taken from one after another, so that no cache holds them.
inline constexpr std::int64_t kBenchPoolBytes = std::int64_t{1} << 30;

/// A matrix [out, in] of a decoder's layer, and the numbers of rows that meet it.
struct GemmSpeedTask {
  quant::Format format = quant::Format::bf16;  ///< not f32
  std::int64_t out = 0, in = 0;
  std::vector<std::int64_t> num_rows;
  std::int64_t pool_bytes = kBenchPoolBytes;  ///< of copies of the matrix
};
struct GemmSpeeds {
  double read_bytes_per_s = 0;  ///< by a kernel that reads memory once: what shares of the limit are of
  std::vector<double> gemm_s;   ///< one for each number of rows
};

/// A tick's attention in one layer: a row each of sequences that see num_positions, in pages that lie in no order.
struct AttentionSpeedTask {
  quant::KvFormat format = quant::KvFormat::bf16;  ///< not f32
  model::ModelConfig model;
  std::int64_t page_size = 16, num_sequences = 1, num_positions = 1;
  std::int64_t shared_positions = 0;          ///< the first, whole pages, that lie in the same pages for all sequences
  std::int64_t pool_bytes = kBenchPoolBytes;  ///< at least what the sequences need
};
struct AttentionSpeed {
  double read_bytes_per_s = 0;  ///< as GemmSpeeds'
  double attention_s = 0;
};

/// Whole ticks that decode, of a model with random weights that are made on the device.
struct TickSpeedTask {
  EngineOptions options;  ///< max_positions: the longest context; max_sequences: the largest batch
  quant::Format format = quant::Format::bf16, head_format = quant::Format::bf16;  ///< of the layers; of lm_head
  std::vector<std::int64_t> batches, contexts;
  std::int64_t matmul_size = 8192;            ///< of the square bf16 GEMM that measures the matrix units
  std::int64_t pool_bytes = kBenchPoolBytes;  ///< as GemmSpeedTask's
};
struct TickSpeed {
  std::int64_t batch = 0, context = 0;
  double tick_s = 0;  ///< 0: their pages have no room
  double host_s = 0;  ///< of it without waiting for the device
};
struct TickSpeeds {
  double read_bytes_per_s = 0;  ///< as GemmSpeeds'
  double matmul_flops = 0;      ///< a second, bf16
  double rewrite_s = 0;         ///< all weights from fp32 masters on the device
  std::vector<TickSpeed> ticks;
};

namespace QRL_CUDA_TARGET {

/// Times the GEMMs that the engine would launch, with bf16 results, on normal random values quantized to the format.
/// They run one after another as a CUDA graph: the best of five rounds by the host's clock. Errors as make_engine's.
GemmSpeeds measure_gemms(const GemmSpeedTask& task);

/// Times it as measure_gemms does, on normal random values quantized to the format, planned as the engine plans it.
/// Errors as make_engine's and allocate_kv's.
AttentionSpeed measure_attention(const AttentionSpeedTask& task);

/// Times the engine's ticks at fixed positions, a row a sequence, pages of their own in no order, sampled tokens back
/// on the host: the best of three rounds. Keys and values are those of one sequence, copied. Errors as make_engine's
/// and allocate_kv's.
TickSpeeds measure_ticks(const TickSpeedTask& task);

}  // namespace QRL_CUDA_TARGET

using QRL_CUDA_TARGET::measure_attention;
using QRL_CUDA_TARGET::measure_gemms;
using QRL_CUDA_TARGET::measure_ticks;

}  // namespace qrl::cuda

#pragma once

#include <cstdint>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/runtime.h"
#include "quant/format.h"
#include "quant/kv_format.h"
#include "quant/rotation.h"

namespace qrl::cuda {

/// Size of the pool of operand copies that successive calls cycle through. It exceeds all caches.
inline constexpr std::int64_t kBenchPoolBytes = std::int64_t{1} << 30;

/// Standard deviation of the weights of measured ticks, usual for initial weights.
inline constexpr float kBenchMasterSigma = 0.02F;

/// Describes a layer's matrix [out, in], and the batch sizes to multiply with it.
struct GemmSpeedTask {
  quant::Format format = quant::Format::bf16;  ///< any format but f32
  std::int64_t out = 0, in = 0;
  std::vector<std::int64_t> num_rows;
  std::int64_t pool_bytes = kBenchPoolBytes;  ///< memory to fill with copies of the matrix
};
struct GemmSpeeds {
  double read_bytes_per_s = 0;  ///< rate of a kernel that only reads memory, as an upper bound
  std::vector<double> gemm_s;   ///< seconds per GEMM for each of num_rows
};

/// Describes one layer's attention in a tick. Each sequence has one query row, which attends to num_positions positions
/// in shuffled pages.
struct AttentionSpeedTask {
  quant::KvFormat format = quant::KvFormat::bf16;  ///< any format but f32
  model::ModelConfig model;
  std::int64_t page_size = 16, num_sequences = 1, num_positions = 1;
  std::int64_t shared_positions = 0;          ///< leading positions that all sequences share, rounded to whole pages
  std::int64_t pool_bytes = kBenchPoolBytes;  ///< memory to fill with copies of the pages
};
struct AttentionSpeed {
  double read_bytes_per_s = 0;
  double attention_s = 0;
};

/// Describes decode ticks of a model with random weights.
struct TickSpeedTask {
  EngineOptions options;  ///< max_positions: the longest context; max_sequences: the largest batch
  quant::Format format = quant::Format::bf16, head_format = quant::Format::bf16;
  quant::Rotation rotation = {};  ///< of the layers' inputs; its blocks divide their widths
  float temperature = 1, top_p = 1;
  std::vector<std::int64_t> batches, contexts;
  std::int64_t matmul_size = 8192;  ///< size of the square bf16 GEMM that measures tensor cores
  std::int64_t pool_bytes = kBenchPoolBytes;
};
struct TickSpeed {
  std::int64_t batch = 0, context = 0;
  double tick_s = 0;  ///< 0: the pages do not fit in memory
  double host_s = 0;  ///< tick_s minus the host's waits for the device
};
struct TickSpeeds {
  double read_bytes_per_s = 0;
  double matmul_flops = 0;  ///< FLOP per second of a bf16 GEMM
  double rewrite_s = 0;     ///< time to rewrite all weights from fp32 masters on the device
  std::vector<TickSpeed> ticks;
};

namespace QRL_CUDA_TARGET {

/// Measures the engine's GEMMs in a CUDA graph. Operands are normal random values, and results are bf16. Returns the
/// best of five rounds. Throws like make_engine.
GemmSpeeds measure_gemms(const GemmSpeedTask& task);

/// Measures attention with the engine's plan, like measure_gemms. Throws like make_engine and allocate_kv.
AttentionSpeed measure_attention(const AttentionSpeedTask& task);

/// Measures the engine's ticks at fixed positions, including the copy of sampled tokens to the host. A tick has one row
/// per sequence, and each sequence has its own shuffled pages. Returns the best of three rounds. Throws like
/// make_engine and allocate_kv.
TickSpeeds measure_ticks(const TickSpeedTask& task);

}  // namespace QRL_CUDA_TARGET

using QRL_CUDA_TARGET::measure_attention;
using QRL_CUDA_TARGET::measure_gemms;
using QRL_CUDA_TARGET::measure_ticks;

}  // namespace qrl::cuda

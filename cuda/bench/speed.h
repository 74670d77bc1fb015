// Owns the entry to benchmarks of a GPU's GEMMs, attention and whole ticks, beside the limits of its memory and its
// matrix units. Knows nothing of how they are computed. bench/no_cuda.cpp stands in without CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

/// A matrix [out, in] of a decoder's layer, and the numbers of rows that meet it.
struct GemmSpeedTask {
  quant::Format format = quant::Format::bf16;  ///< not f32
  std::int64_t out = 0, in = 0;
  std::vector<std::int64_t> num_rows;
  int device_number = 0;
  /// Device memory that is read and copied in turn, so that no cache holds it: half for copies of the matrix.
  std::int64_t pool_bytes = std::int64_t{1} << 30;
};
struct GemmSpeeds {
  double copy_bytes_per_s = 0;          ///< read and written, by a copy within the device's memory
  double read_bytes_per_s = 0;          ///< by a kernel that reads it once: what shares of the limit are of
  std::vector<double> gemm_s;           ///< one for each number of rows
  std::vector<std::int64_t> num_bytes;  ///< that the GEMM must read or write
};
/// Times the GEMMs that the engine would launch, with bf16 results, on normal random values quantized to the format.
/// They run one after another as a CUDA graph: the best of five rounds by the host's clock. Errors as make_engine's.
GemmSpeeds measure_gemms(const GemmSpeedTask& task);

/// A tick's attention in one layer: a row each of sequences that see num_positions, in pages that lie in no order.
struct AttentionSpeedTask {
  quant::KvFormat format = quant::KvFormat::bf16;  ///< not f32
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0, page_size = 16;
  std::int64_t num_sequences = 1, num_positions = 1;
  std::int64_t shared_positions = 0;  ///< the first, whole pages, that lie in the same pages for all sequences
  int device_number = 0;
  std::int64_t pool_bytes = std::int64_t{1} << 30;  ///< as GemmSpeedTask's; at least what the sequences need
};
struct AttentionSpeed {
  double copy_bytes_per_s = 0, read_bytes_per_s = 0;  ///< as GemmSpeeds'
  double attention_s = 0;
  std::int64_t num_bytes = 0;  ///< keys, values and scales, what is shared once, queries and contexts
};
/// Times it as measure_gemms does, on normal random values quantized to the format, planned as the engine plans it.
/// Errors as make_engine's.
AttentionSpeed measure_attention(const AttentionSpeedTask& task);

/// Whole ticks that decode, of a model with random weights that are made on the device.
struct TickSpeedTask {
  EngineOptions options;  ///< max_positions: the longest context; max_sequences: the largest batch
  quant::Format format = quant::Format::bf16;
  std::vector<std::int64_t> batches, contexts;
  std::int64_t matmul_size = 8192;                  ///< of the square bf16 GEMM that measures the matrix units
  std::int64_t pool_bytes = std::int64_t{1} << 30;  ///< as GemmSpeedTask's
};
struct TickSpeed {
  std::int64_t batch = 0, context = 0;
  double tick_s = 0;            ///< 0: their pages have no room
  double host_s = 0;            ///< of it without waiting for the device
  std::int64_t num_bytes = 0;   ///< that a tick must read: weights, scales, keys and values
  double layer_operations = 0;  ///< of the layers' GEMMs; a multiplication and a sum count two
  double other_operations = 0;  ///< of lm_head and attention, which are bf16 or as fast
};
struct TickSpeeds {
  double copy_bytes_per_s = 0, read_bytes_per_s = 0;  ///< as GemmSpeeds'
  double matmul_flops = 0;                            ///< a second, bf16
  double rewrite_s = 0;                               ///< all weights from fp32 masters on the device
  std::vector<TickSpeed> ticks;
};
/// Times the engine's ticks at fixed positions, a row a sequence, pages of their own in no order, sampled tokens back
/// on the host: the best of three rounds. Keys and values are those of one sequence, copied. Errors as make_engine's
/// and allocate_kv's.
TickSpeeds measure_ticks(const TickSpeedTask& task);

}  // namespace qrl::cuda

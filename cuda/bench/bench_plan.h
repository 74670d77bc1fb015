// Owns what benchmarks would give to a GPU: shapes, plans, bytes and operations of their matmuls, attention and ticks.
// Arithmetic on the host, in a program without CUDA, too. Knows nothing of time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/bench/speed.h"
#include "cuda/engine/decode_engine.h"

namespace qrl::cuda {

/// Returns the rows of a tick that decodes for `batch` sequences, as the engine fills it up.
std::int64_t tick_rows(std::int64_t batch);

struct LayerMatrix {
  std::string name;
  std::int64_t out = 0, in = 0;
};
/// The matrices of one layer, in the order of the forward pass.
std::vector<LayerMatrix> layer_matrices(const model::ModelConfig& config);

enum class MatmulKernel : std::uint8_t { streamed, cutlass, cublaslt, block_scaled, dequantized };

/// The matmul as the engine makes it on a Hopper GPU of 132 multiprocessors (an H100 or H200): the rule's choice, which
/// timing may replace by another of the same bits.
struct MatmulPlan {
  MatmulKernel kernel = MatmulKernel::cublaslt;
  std::int64_t tile_rows = 0, tile_outputs = 0, num_blocks = 0;  ///< of `streamed`
  std::int64_t num_bytes = 0;                                    ///< weights, scales, x and the result, once each
  std::string text;                                              ///< "streamed, tiles of 8 x 64, 96 blocks"
};
MatmulPlan plan_matmul(quant::Format format, std::int64_t out, std::int64_t in, std::int64_t num_rows);

/// Bytes of a matrix and its scales on the device.
std::int64_t matrix_bytes(quant::Format format, std::int64_t out, std::int64_t in);

/// Keys, values and scales, what is shared once, queries and contexts.
std::int64_t attention_bytes(const AttentionSpeedTask& task);
/// An input error where positions are not fewer shared whole pages than there are positions.
void require_valid(const AttentionSpeedTask& task);

/// The bytes and operations that a tick must read and compute; its times are 0.
TickSpeed count_tick_work(const TickSpeedTask& task, std::int64_t batch, std::int64_t context);

}  // namespace qrl::cuda

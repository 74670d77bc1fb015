// Owns what benchmarks would give to a GPU: shapes, plans and bytes of a layer's matmuls. Computes on the host and also
// builds without CUDA. Knows nothing of time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "cuda/gemm/gemm_plan.h"

namespace qrl::cuda {

/// The matrices of one layer, in the order of the forward pass.
std::vector<model::BlockMatrix> layer_matrices(const model::ModelConfig& config);

/// The matmul as the engine makes it on a Hopper GPU of 132 multiprocessors (an H100 or H200): the rule's choice, which
/// timing may replace by another of the same bits.
struct MatmulPlan {
  GemmKernel kernel = GemmKernel::cublaslt;
  std::int64_t tile_rows = 0, tile_outputs = 0, num_blocks = 0;  ///< of `streamed`
  std::int64_t num_bytes = 0;                                    ///< weights, scales, x and the result, once each
  std::string text;                                              ///< "streamed, tiles of 8 x 64, 96 blocks"
};
MatmulPlan plan_matmul(quant::Format format, std::int64_t out, std::int64_t in, std::int64_t num_rows);

/// Bytes of a matrix and its scales on the device.
std::int64_t matrix_bytes(quant::Format format, std::int64_t out, std::int64_t in);

}  // namespace qrl::cuda

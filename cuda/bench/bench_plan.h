// Owns the GEMM shapes, plans and bytes of a layer, as benchmarks give them to a GPU. Computes on the host and also
// builds without CUDA. Knows nothing of time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "cuda/gemm/gemm_plan.h"

namespace qrl::cuda {

/// Returns the matrices of one layer, in the order of the forward pass.
std::vector<model::BlockMatrix> layer_matrices(const model::ModelConfig& config);

/// A matmul as the engine runs it on a Hopper GPU with 132 multiprocessors (H100 or H200). This is the rule's choice;
/// timing may replace it with another kernel that gives the same bits.
struct MatmulPlan {
  GemmKernel kernel = GemmKernel::cublaslt;
  std::int64_t tile_rows = 0, tile_outputs = 0, num_blocks = 0;  ///< for `streamed` only
  std::int64_t num_bytes = 0;                                    ///< weights, scales, x and result, each counted once
  std::string text;                                              ///< "streamed, tiles of 8 x 64, 96 blocks"
};
MatmulPlan plan_matmul(quant::Format format, std::int64_t out, std::int64_t in, std::int64_t num_rows);

/// Returns the bytes of a matrix and its scales on the device.
std::int64_t matrix_bytes(quant::Format format, std::int64_t out, std::int64_t in);

}  // namespace qrl::cuda

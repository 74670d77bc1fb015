// Owns the plans of benchmarked matmuls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/engine/decode_engine.h"

namespace qrl::cuda {

std::vector<model::BlockMatrix> layer_matrices(const model::ModelConfig& config);

/// Describes the plan of a matmul on a Hopper GPU with 132 multiprocessors (H100, H200).
struct MatmulPlan {
  std::int64_t num_bytes = 0;  ///< weights, scales, x and result, each counted once
  std::string text;            ///< "streamed, tiles of 8 x 64, 96 blocks"
};
MatmulPlan plan_matmul(quant::Format format, std::int64_t out, std::int64_t in, std::int64_t num_rows);

std::int64_t matrix_bytes(quant::Format format, std::int64_t out, std::int64_t in);

}  // namespace qrl::cuda

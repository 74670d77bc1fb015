#include "cuda/bench/bench_plan.h"

#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/layout.h"

namespace qrl::cuda {

namespace {

constexpr DeviceLimits kHopper{232'448, 132};
/// The index is a GemmKernel.
constexpr const char* kKernelTexts[] = {"cuBLASLt",
                                        "cuBLASLt, block scales",
                                        "cuBLASLt, row scales",
                                        "CUTLASS",
                                        "CUTLASS",
                                        "streamed",
                                        "dequantized to bf16, then cuBLASLt"};

}  // namespace

std::vector<model::BlockMatrix> layer_matrices(const model::ModelConfig& config) {
  std::vector<model::BlockMatrix> all;
  model::visit_matrices(config, kAnyLayer,
                        [&](const model::BlockMatrix& matrix, const auto&) { all.push_back(matrix); });
  return all;
}

std::int64_t matrix_bytes(quant::Format format, std::int64_t out, std::int64_t in) {
  const MatrixLayout at = matrix_layout(format, out, in);
  return at.num_bytes() + at.num_scales * at.rows * static_cast<std::int64_t>(sizeof(float));
}

MatmulPlan plan_matmul(quant::Format format, std::int64_t out, std::int64_t in, std::int64_t num_rows) {
  const MatrixLayout at = matrix_layout(format, out, in);
  const GemmChoice choice = gemm_choices(format, at, num_rows, false, {true, false, true}, kHopper)[0];
  const std::int64_t x_bytes = at.width * (quant::spec(format).activations == quant::Element::bf16 ? 2 : 1);
  MatmulPlan plan;
  plan.num_bytes = matrix_bytes(format, out, in) + num_rows * (x_bytes + at.rows * 2);
  plan.text = kKernelTexts[static_cast<std::size_t>(choice.kernel)];
  if (choice.kernel != GemmKernel::streamed) return plan;
  const StreamTile& tile = choice.plan.tile;
  const std::int64_t num_blocks = num_tiles(tile, at, num_rows) * (choice.plan.splits_apart ? num_splits(at) : 1);
  plan.text += ", tiles of " + std::to_string(tile.rows) + " x " + std::to_string(tile.outputs) + ", " +
               std::to_string(num_blocks) + " blocks";
  return plan;
}

}  // namespace qrl::cuda

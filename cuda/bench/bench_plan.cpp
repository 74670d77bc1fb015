#include "cuda/bench/bench_plan.h"

#include "base/error.h"
#include "cuda/gemm/gemm_plan.h"
#include "cuda/runtime/layout.h"

namespace qrl::cuda {

namespace {

/// Hopper's largest parts: shared memory that a block can have, and multiprocessors.
constexpr DeviceLimits kHopper{232'448, 132};

std::int64_t kv_position_bytes(quant::KvFormat format, const KvLayout& at) {
  return at.slot_bytes() + (format == quant::KvFormat::int8 ? static_cast<std::int64_t>(sizeof(float)) : 0);
}

}  // namespace

std::int64_t tick_rows(std::int64_t batch) { return padded_rows(batch); }

std::vector<LayerMatrix> layer_matrices(const model::ModelConfig& config) {
  std::vector<LayerMatrix> all;
  model::visit_matrices(config, [&](const model::BlockMatrix& matrix, const auto&) {
    all.push_back({std::string(matrix.name), matrix.out(), matrix.in});
  });
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
  switch (choice.kernel) {
    case GemmKernel::streamed: {
      const StreamTile& tile = choice.plan.tile;
      plan.kernel = MatmulKernel::streamed;
      plan.tile_rows = tile.rows;
      plan.tile_outputs = tile.outputs;
      plan.num_blocks = num_tiles(tile, at, num_rows) * (choice.plan.splits_apart ? num_splits(at) : 1);
      plan.text = "streamed, tiles of " + std::to_string(tile.rows) + " x " + std::to_string(tile.outputs) + ", " +
                  std::to_string(plan.num_blocks) + " blocks";
      break;
    }
    case GemmKernel::cutlass_int8:
    case GemmKernel::cutlass_fp8:
      plan.kernel = MatmulKernel::cutlass;
      plan.text = "CUTLASS";
      break;
    case GemmKernel::block_scaled:
      plan.kernel = MatmulKernel::block_scaled;
      plan.text = "cuBLASLt, block scales";
      break;
    default:
      plan.kernel = format == quant::Format::bf16 ? MatmulKernel::cublaslt : MatmulKernel::dequantized;
      plan.text = format == quant::Format::bf16 ? "cuBLASLt" : "dequantized to bf16, then cuBLASLt";
  }
  return plan;
}

void require_valid(const AttentionSpeedTask& task) {
  QRL_REQUIRE(task.num_positions > 0 && task.shared_positions % task.page_size == 0 &&
                  task.shared_positions < task.num_positions,
              "shared positions", "whole pages, fewer than " + std::to_string(task.num_positions) + " positions",
              std::to_string(task.shared_positions), "give a multiple of " + std::to_string(task.page_size));
}

std::int64_t attention_bytes(const AttentionSpeedTask& task) {
  const KvLayout at = kv_layout(task.format, task.num_kv_heads, task.page_size, task.head_dim);
  const std::int64_t positions =
      task.shared_positions + task.num_sequences * (task.num_positions - task.shared_positions);
  return 2 * (positions * task.num_kv_heads * kv_position_bytes(task.format, at) +
              task.num_sequences * task.num_heads * task.head_dim * static_cast<std::int64_t>(sizeof(float)));
}

TickSpeed count_tick_work(const TickSpeedTask& task, std::int64_t batch, std::int64_t context) {
  const model::ModelConfig& config = task.options.model;
  TickSpeed work{batch, context};
  double weights = 0;
  for (const LayerMatrix& matrix : layer_matrices(config)) {
    work.num_bytes += config.num_hidden_layers * matrix_bytes(task.format, matrix.out, matrix.in);
    weights += static_cast<double>(config.num_hidden_layers * matrix.out * matrix.in);
  }
  work.num_bytes += matrix_bytes(quant::Format::bf16, config.vocab_size, config.hidden_size);
  const KvLayout kv =
      kv_layout(task.options.kv_format, config.num_key_value_heads, task.options.page_size, config.head_dim);
  work.num_bytes += 2 * batch * context * config.num_hidden_layers * config.num_key_value_heads *
                    kv_position_bytes(task.options.kv_format, kv);
  const auto rows = static_cast<double>(batch);
  work.layer_operations = 2 * rows * weights;
  work.other_operations = 2 * rows * static_cast<double>(config.vocab_size * config.hidden_size) +
                          4 * rows * static_cast<double>(context * config.num_hidden_layers * config.q_size());
  return work;
}

}  // namespace qrl::cuda

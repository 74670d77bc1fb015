#include "tick_limit.h"

#include <algorithm>

#include "cuda/bench/bench_plan.h"
#include "decoder/kv/delta_states.h"
#include "model/weights.h"
#include "ops/paged_attention.h"
#include "train/plan/work_estimate.h"

namespace qrl::app {

namespace {

/// Returns the number of query elements per row, over all layers.
double query_width(const model::ModelConfig& config) {
  return static_cast<double>(config.q_size() * config.num_attention_layers());
}

double num_bytes(const ops::PackedLinear& matrix) {
  return static_cast<double>(matrix.panels.num_bytes() + matrix.scales.num_bytes() + matrix.column_sums.num_bytes());
}

struct Experts {
  double num_bytes = 0, count = 0;
};
Experts experts_of(const model::Snapshot& snapshot) {
  const model::ModelConfig& config = snapshot.config();
  Experts experts;
  for (const std::int64_t layer : config.sparse_layers()) {
    const model::LayerSnapshot& sparse = snapshot.layer(layer);
    experts.count += static_cast<double>(sparse.expert_gate_up.size());
    for (const auto* matrices : {&sparse.expert_gate_up, &sparse.expert_down}) {
      for (const ops::PackedLinear& matrix : *matrices) experts.num_bytes += num_bytes(matrix);
    }
  }
  return experts;
}

}  // namespace

AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick) {
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const double position_bytes = 2 * static_cast<double>(ops::kv_page_bytes(heads, tick.kv_format, tick.page_size)) /
                                static_cast<double>(tick.page_size);
  const double positions = tick.batch * tick.context;
  // States are read and written once a token.
  const double state_bytes = 2 * tick.batch * static_cast<double>(decoder::state_slot_bytes(config));
  const double state_operations = tick.batch * train::delta_operations(config);
  return {4 * positions * query_width(config) + state_operations,
          positions * static_cast<double>(config.num_attention_layers()) * position_bytes + state_bytes};
}

TickWork gpu_tick_work(const model::ModelConfig& config, quant::Format format, quant::Format head_format,
                       const DecodeTick& tick) {
  const train::MatmulParams params = train::matmul_params(config);
  const AttentionWork attention = attention_of_tick(config, tick);
  std::int64_t weight_bytes = cuda::matrix_bytes(head_format, config.vocab_size, config.hidden_size);
  for (const model::BlockMatrix& matrix : cuda::layer_matrices(config))
    weight_bytes += config.num_hidden_layers * cuda::matrix_bytes(format, matrix.out(), matrix.in);
  return {static_cast<double>(weight_bytes) + attention.kv_bytes, 2 * tick.batch * params.layers,
          (head_format == quant::Format::int8 ? 1 : 2) * tick.batch * params.lm_head + attention.operations};
}

double ceiling_of(quant::Format format, const ops::Ceilings& ceilings) {
  const quant::Element activations = spec(format).activations;
  return activations == quant::Element::int8  ? ceilings.int8_ops_per_s
         : activations == quant::Element::f32 ? ceilings.f32_flops_per_s
                                              : ceilings.bf16_flops_per_s;
}

double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings) {
  const train::MatmulParams params = train::matmul_params(snapshot.config());
  const AttentionWork attention = attention_of_tick(snapshot.config(), tick);
  // With int8 keys, a query is a sum of two int8 terms. This halves the int8 rate, which then equals bf16's.
  const double attention_rate =
      tick.kv_format == quant::KvFormat::f32 ? ceilings.f32_flops_per_s : ceilings.bf16_flops_per_s;
  const double compute_s = 2 * tick.batch * params.layers / ceiling_of(snapshot.format(), ceilings) +
                           2 * tick.batch * params.lm_head / ceiling_of(snapshot.lm_head().format, ceilings) +
                           attention.operations / attention_rate;
  auto weight_bytes = static_cast<double>(snapshot.num_bytes() - snapshot.embedding_VD().num_bytes());
  if (const Experts experts = experts_of(snapshot); experts.count > 0)
    weight_bytes -= experts.num_bytes * (1 - tick.experts_read / experts.count);
  return std::max(compute_s, (weight_bytes + attention.kv_bytes) / ceilings.dram_bytes_per_s);
}

double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length) {
  const train::MatmulParams params = train::matmul_params(config);
  const auto tokens = static_cast<double>(sequences * length);
  return 6 * (params.layers + params.lm_head) * tokens + 6 * tokens * static_cast<double>(length) * query_width(config);
}

}  // namespace qrl::app

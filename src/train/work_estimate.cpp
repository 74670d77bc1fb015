#include "train/work_estimate.h"

#include <algorithm>

#include "model/weights.h"
#include "ops/paged_attention.h"

namespace qrl::train {

namespace {

/// Elements of all layers' queries of one row.
double query_width(const model::ModelConfig& config) {
  return static_cast<double>(config.q_size() * config.num_hidden_layers);
}

}  // namespace

MatmulParams matmul_params(const model::ModelConfig& config) {
  MatmulParams params;
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    if (spec.kind == model::WeightKind::linear) params.layers += static_cast<double>(spec.shape.numel());
  }
  params.lm_head = static_cast<double>(config.vocab_size * config.hidden_size);
  return params;
}

AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick) {
  const ops::HeadShape heads{config.num_attention_heads, config.num_key_value_heads, config.head_dim};
  const double position_bytes = 2 * static_cast<double>(ops::kv_page_bytes(heads, tick.kv_format, tick.page_size)) /
                                static_cast<double>(tick.page_size);
  const double positions = tick.batch * tick.context;
  return {4 * positions * query_width(config),
          positions * static_cast<double>(config.num_hidden_layers) * position_bytes};
}

double ceiling_of(quant::Format format, const ops::Ceilings& ceilings) {
  const quant::Element activations = spec(format).activations;
  return activations == quant::Element::int8  ? ceilings.int8_ops_per_s
         : activations == quant::Element::f32 ? ceilings.f32_flops_per_s
                                              : ceilings.bf16_flops_per_s;
}

double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings) {
  const MatmulParams params = matmul_params(snapshot.config());
  const AttentionWork attention = attention_of_tick(snapshot.config(), tick);
  // int8 keys meet queries of two int8 terms: as many operations a second as bf16's.
  const double attention_rate =
      tick.kv_format == quant::KvFormat::f32 ? ceilings.f32_flops_per_s : ceilings.bf16_flops_per_s;
  const double compute_s = 2 * tick.batch * params.layers / ceiling_of(snapshot.format(), ceilings) +
                           2 * tick.batch * params.lm_head / ceiling_of(snapshot.lm_head().format, ceilings) +
                           attention.operations / attention_rate;
  const auto weight_bytes = static_cast<double>(snapshot.num_bytes() - snapshot.embedding_VD().num_bytes());
  return std::max(compute_s, (weight_bytes + attention.kv_bytes) / ceilings.dram_bytes_per_s);
}

double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens) {
  double rows = 0, visible = 0;  // visible: positions that a row sees, over all rows
  for (const types::MicroBatch& batch : batches) {
    rows += static_cast<double>(batch.num_tokens());
    double prefix = 0;
    for (std::int64_t s = 0; s < batch.num_sequences(); ++s) {
      const auto at = static_cast<std::size_t>(s);
      const double own = batch.sequence_starts[at + 1] - batch.sequence_starts[at];
      if (!batch.continues(s)) prefix = own;
      visible += own * (own + 1) / 2 + (batch.continues(s) ? own * prefix : 0);
    }
  }
  const MatmulParams params = matmul_params(config);
  return 6 * params.layers * rows + 6 * params.lm_head * static_cast<double>(counted_tokens) +
         12 * visible * query_width(config);
}

double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length) {
  const MatmulParams params = matmul_params(config);
  const auto tokens = static_cast<double>(sequences * length);
  return 6 * (params.layers + params.lm_head) * tokens + 6 * tokens * static_cast<double>(length) * query_width(config);
}

}  // namespace qrl::train

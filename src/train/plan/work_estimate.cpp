#include "train/plan/work_estimate.h"

#include "model/weights.h"

namespace qrl::train {

MatmulParams matmul_params(const model::ModelConfig& config) {
  MatmulParams params;
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    if (!is_layer_matrix(spec.kind)) continue;
    const auto all = static_cast<double>(spec.shape.numel());
    const bool are_experts = !spec.parts.empty();
    params.layers +=
        are_experts ? all * static_cast<double>(config.num_experts_per_tok) / static_cast<double>(config.num_experts)
                    : all;
  }
  params.lm_head = static_cast<double>(config.vocab_size * config.hidden_size);
  return params;
}

double delta_operations(const model::ModelConfig& config) {
  // Three products of a token with a head's state: with k, of k and the update, with q.
  return 6.0 * static_cast<double>(config.num_delta_layers() * config.delta_size() * config.linear_key_head_dim);
}

double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens) {
  double rows = 0, visible = 0;  // visible: attended positions, summed over rows
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
         12 * visible * static_cast<double>(config.q_size() * config.num_attention_layers()) +
         rows * 3 * delta_operations(config);
}

}  // namespace qrl::train

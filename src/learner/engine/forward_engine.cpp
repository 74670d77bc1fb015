#include "learner/engine/forward_engine.h"

namespace qrl::learner {

ForwardNumerics forward_numerics(const Numerics& numerics) {
  const auto compute = numerics.compute == ComputeDType::bf16 ? torch::kBFloat16 : torch::kFloat32;
  ForwardNumerics made;
  made.compute = made.between = made.attention = compute;
  made.lm_head = numerics.f32_lm_head ? torch::kFloat32 : compute;
  made.own_lm_head = numerics.own_lm_head;
  made.forward = numerics.forward;
  made.backward = numerics.backward;
  made.bitwise = numerics.bitwise;
  made.kv_format = numerics.kv_format;
  if (made.quantized()) {
    // Follows the sampler, which rounds queries and softmax weights to bf16 except with fp32 pages.
    made.between = torch::kFloat32;
    if (made.kv_format == quant::KvFormat::f32) made.attention = torch::kFloat32;
  }
  return made;
}

ForwardEngine::ForwardEngine(const model::ModelConfig& config, const LearnerOptions& options)
    : config_(config),
      numerics_(forward_numerics(options.numerics)),
      activation_checkpointing_(options.activation_checkpointing) {}

ForwardOptions ForwardEngine::forward_options(const ForwardTask& task) const {
  return {activation_checkpointing_, nullptr, task.layer_done};
}

ParameterOptions ForwardEngine::common_parameters() const {
  ParameterOptions how;
  how.compute = numerics_.compute;
  how.f32_lm_head = numerics_.lm_head == torch::kFloat32;
  how.own_lm_head = numerics_.own_lm_head;
  return how;
}

void ForwardEngine::read(Parameters& parameters, const model::Snapshot& snapshot, model::DeviceWeights* device,
                         bool is_on_device) {
  if (reads_snapshot()) parameters.bind_quantized(snapshot);
  read_weights(parameters, snapshot, device, is_on_device);
}

}  // namespace qrl::learner

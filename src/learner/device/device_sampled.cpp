#include "learner/device/device_sampled.h"

#include "base/error.h"
#include "learner/device/device_quantized.h"

namespace qrl::learner {

SampledPass sampled_pass(model::DeviceWeights& decoder, const model::ModelConfig& config, const PackedRows& rows,
                         const TargetRows& targets, const torch::Device& device, bool keeps_layers) {
  QRL_INVARIANT(targets.kept.empty(), "a bitwise learner on a device", "draws without top-k and top-p", "others");
  const auto there = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  TensorList streams;
  std::vector<float*> after_layer;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (keeps_layers || i == 0) streams.push_back(torch::empty({rows.num_rows(), config.hidden_size}, there));
    after_layer.push_back(streams.back().data_ptr<float>());
  }
  void* stream = stream_on(device);
  decoder.forward({rows.tokens, rows.sequence_starts, rows.continues_prefix}, after_layer, stream);

  SampledPass pass;
  const auto count = static_cast<std::int64_t>(targets.rows.size());
  pass.scores = {torch::empty({count}), torch::empty({count}), nullptr};
  const std::vector<std::int32_t> row_ids(targets.rows.begin(), targets.rows.end());
  const auto floats = [&](const Tensor& x) { return std::span(x.data_ptr<float>(), targets.rows.size()); };
  decoder.score(after_layer.back(), {row_ids, targets.targets, targets.temperature}, floats(pass.scores.log_probs_M),
                floats(pass.scores.entropy_M), stream);
  if (keeps_layers) pass.after_layer = std::move(streams);
  return pass;
}

}  // namespace qrl::learner

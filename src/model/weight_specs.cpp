#include "model/block.h"
#include "model/config.h"

namespace qrl::model {

std::vector<WeightSpec> weight_specs(const ModelConfig& config) {
  const std::int64_t width = config.hidden_size;
  std::vector<WeightSpec> specs = {{"model.embed_tokens.weight", {config.vocab_size, width}, WeightKind::embedding}};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    visit_block(
        config, layer,
        [&](const BlockGain& gain, const auto&) {
          specs.push_back({prefix + std::string(gain.module) + ".weight", {gain.width}, WeightKind::norm});
        },
        [&](const BlockMatrix& matrix, const auto&) {
          for (const BlockModule& module : matrix.modules) {
            const std::string name = prefix + std::string(module.name);
            specs.push_back({name + ".weight", {module.rows, matrix.in}, WeightKind::linear});
            if (matrix.has_bias) specs.push_back({name + ".bias", {module.rows}, WeightKind::bias});
          }
        });
  }
  specs.push_back({"model.norm.weight", {width}, WeightKind::norm});
  if (!config.tie_word_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, width}, WeightKind::lm_head});
  return specs;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const WeightSpec& spec : weight_specs(config)) total += spec.shape.numel();
  return total;
}

}  // namespace qrl::model

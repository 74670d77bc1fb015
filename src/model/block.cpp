#include "model/block.h"

#include "model/config.h"

namespace qrl::model {

std::string norm_before(const ModelConfig& config, const std::string& weight) {
  std::string norm;
  const auto note = [&](std::string_view module, std::string_view its_norm) {
    const std::string end = std::string(module) + ".weight";
    if (!its_norm.empty() && weight.ends_with(end))
      norm = weight.substr(0, weight.size() - end.size()) + std::string(its_norm) + ".weight";
  };
  const auto note_matrix = [&](const BlockMatrix& matrix, const auto&) {
    for (const BlockModule& module : matrix.modules) note(module.name, matrix.norm);
  };
  ModelConfig any = names_of(config);
  for (std::int64_t layer = 0; layer < any.num_hidden_layers; ++layer) visit_matrices(any, layer, note_matrix);
  any.num_experts = 1;
  visit_matrices(any, 0, note_matrix,
                 [&](const BlockExperts& experts, const auto&) { note(experts.tensor, experts.matrix.norm); });
  return norm;
}

namespace {

WeightSpec experts_spec(const std::string& prefix, const BlockExperts& experts) {
  const BlockMatrix& matrix = experts.matrix;
  WeightSpec spec{prefix + std::string(experts.tensor) + ".weight", {experts.count, matrix.out(), matrix.in}};
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < experts.count; ++expert) {
    for (const BlockModule& module : matrix.modules) {
      const base::Shape shape{module.rows, matrix.in};
      spec.parts.push_back({expert_module(prefix, expert, module) + ".weight", shape, first});
      first += shape.numel();
    }
  }
  return spec;
}

}  // namespace

std::vector<WeightSpec> weight_specs(const ModelConfig& config) {
  const std::int64_t width = config.hidden_size;
  std::vector<WeightSpec> specs = {{"model.embed_tokens.weight", {config.vocab_size, width}, WeightKind::embedding}};
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    visit_block(
        config, layer,
        [&](const BlockGain& gain, const auto&) {
          specs.push_back({prefix + gain.tensor(), gain.shape(), gain.kind});
        },
        [&](const BlockMatrix& matrix, const auto&) {
          for (const BlockModule& module : matrix.modules) {
            const std::string name = prefix + std::string(module.name);
            specs.push_back({name + ".weight", {module.rows, matrix.in}, matrix.kind});
            if (matrix.has_bias) specs.push_back({name + ".bias", {module.rows}, WeightKind::bias});
          }
        },
        [&](const BlockExperts& experts, const auto&) { specs.push_back(experts_spec(prefix, experts)); });
  }
  specs.push_back({"model.norm.weight", {width}, WeightKind::norm});
  if (!config.tie_word_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, width}, WeightKind::lm_head});
  return specs;
}

std::vector<StoredPart> stored_parts(const WeightSpec& spec) {
  return spec.parts.empty() ? std::vector<StoredPart>{{spec.name, spec.shape, 0}} : spec.parts;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const WeightSpec& spec : weight_specs(config)) total += spec.shape.numel();
  return total;
}

std::int64_t num_active_parameters(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    const std::int64_t count = spec.shape.numel();
    total += spec.parts.empty() ? count : count / config.num_experts * config.num_experts_per_tok;
  }
  return total;
}

}  // namespace qrl::model

#include "decoder/fixtures.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "model/weights.h"
#include "support/weights.h"

namespace qrl::decoder::test {

model::ModelConfig tiny_config(model::Family family) {
  model::ModelConfig config;
  config.family = family;
  config.vocab_size = 67;
  config.hidden_size = 33;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 6;
  config.num_key_value_heads = family == model::Family::llama ? 1 : 2;
  config.head_dim = 10;
  config.intermediate_size = 71;
  config.max_position_embeddings = 512;
  config.rms_norm_eps = 1e-6F;
  config.rope_theta = 10000;
  config.tie_word_embeddings = family != model::Family::llama;
  config.qk_norm = family == model::Family::qwen3;
  config.qkv_bias = family != model::Family::qwen3;
  config.o_bias = family == model::Family::llama;
  return config;
}

model::Weights tiny_weights(const model::ModelConfig& config, std::uint64_t seed) {
  model::Weights weights = qrl::test::init_weights(config, seed);
  base::RandomStream random(seed, base::RandomPurpose::test, 1);
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    const base::Buffer& tensor = weights.at(spec.name);
    float* values = tensor.as<float>();
    const std::int64_t count = tensor.shape().numel();
    for (std::int64_t i = 0; i < count; ++i) {
      // Zero biases and unit gains would hide a forward pass that omits them.
      if (spec.kind == model::WeightKind::norm) values[i] = 1 + 0.3F * random.normal();
      else if (spec.kind == model::WeightKind::bias) values[i] = 0.3F * random.normal();
      else values[i] *= 10;
    }
  }
  return weights;
}

std::unique_ptr<model::Snapshot> publish(const model::ModelConfig& config, const model::Weights& weights,
                                         const model::SnapshotFormats& formats, std::int64_t version) {
  auto snapshot = std::make_unique<model::Snapshot>(config, formats);
  snapshot->publish(model::views(weights), version);
  return snapshot;
}

std::vector<PageId> scattered_pages(std::int64_t num_tokens, std::int64_t page_size) {
  std::vector<PageId> pages(static_cast<std::size_t>((num_tokens + page_size - 1) / page_size));
  std::iota(pages.begin(), pages.end(), 0);
  base::RandomStream random(3, base::RandomPurpose::test, 0);
  random.shuffle(std::span(pages));
  return pages;
}

}  // namespace qrl::decoder::test

#include "decoder/fixtures.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "model/weights.h"
#include "support/models.h"
#include "support/weights.h"

namespace qrl::decoder::test {

model::ModelConfig tiny_config(model::Family family) {
  const bool is_llama = family == model::Family::llama;
  const model::ModelConfig config = qrl::test::model_config(family, {67, 33, 2, 6, is_llama ? 1 : 2, 10, 71, 512},
                                                            qrl::test::parts_of(family, !is_llama));
  if (family == model::Family::qwen3_5) return qrl::test::with_flags(config, family);
  return family == model::Family::qwen3_moe ? qrl::test::with_experts(config, 19) : config;
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
      if (model::is_norm(spec.kind)) values[i] = 1 + 0.3F * random.normal();
      else if (spec.kind == model::WeightKind::bias) values[i] = 0.3F * random.normal();
      else if (spec.kind == model::WeightKind::conv) values[i] = 0.5F * random.normal();
      else if (spec.kind == model::WeightKind::a_log) values[i] = -2 + 0.3F * random.normal();  // remembers some tokens
      else if (spec.kind == model::WeightKind::dt_bias) values[i] = 0.3F * random.normal();
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

#include "decoder/fixtures.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "model/weights.h"

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
  config.qkv_bias = family == model::Family::qwen2;
  return config;
}

model::Weights tiny_weights(const model::ModelConfig& config, std::uint64_t seed) {
  model::Weights weights = model::init_weights(config, seed);
  base::RandomStream random(seed, base::RandomPurpose::test, 1);
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    const base::Buffer& tensor = weights.at(spec.name);
    float* values = tensor.as<float>();
    const std::int64_t count = tensor.shape().numel();
    for (std::int64_t i = 0; i < count; ++i) {
      // Biases of zero and gains of one would hide a forward that leaves them out.
      if (spec.kind == model::WeightKind::norm) values[i] = 1 + 0.3F * random.normal();
      else if (spec.kind == model::WeightKind::bias) values[i] = 0.3F * random.normal();
      else values[i] *= 10;
    }
  }
  return weights;
}

std::unique_ptr<model::Snapshot> publish(const model::ModelConfig& config, const model::Weights& weights,
                                         quant::Format format, std::int64_t version) {
  auto snapshot = std::make_unique<model::Snapshot>(config, format);
  snapshot->publish(model::views(weights), version);
  return snapshot;
}

std::vector<float> teacher_forced_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens,
                                         const Layout& layout) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t vocab_size = snapshot.config().vocab_size;
  const std::int64_t num_pages = (num_tokens + layout.page_size - 1) / layout.page_size;
  std::vector<PageId> pages(static_cast<std::size_t>(num_pages));
  std::iota(pages.begin(), pages.end(), 0);
  if (layout.scatter_pages) {
    base::RandomStream random(3, base::RandomPurpose::test, 0);
    random.shuffle(std::span(pages));
  }
  KvCache kv(snapshot.config(), num_pages, layout.page_size, layout.kv_dtype);
  kv.allocate();
  const std::int64_t chunk_tokens = std::min(layout.chunk_tokens, num_tokens);
  Transformer transformer(snapshot, chunk_tokens, num_tokens);
  Transformer::Workspace scratch(snapshot);
  std::vector<float> logits(static_cast<std::size_t>(num_tokens * vocab_size));
  for (std::int64_t first = 0; first < num_tokens; first += chunk_tokens) {
    Plan plan(snapshot.config());
    const std::int64_t count = std::min(chunk_tokens, num_tokens - first);
    for (std::int64_t i = 0; i < count; ++i) {
      plan.tokens_N.push_back(tokens[static_cast<std::size_t>(first + i)]);
      plan.positions_N.push_back(static_cast<std::int32_t>(first + i));
      plan.page_tables_N.push_back(pages.data());
      plan.draw_rows.push_back(static_cast<std::int32_t>(i));
    }
    const PlanPart all{{0, count}, {0, count}, {0, 0}};
    base::parallel(layout.num_threads, [&](base::Team& team) {
      transformer.forward(team, plan, all, kv, scratch);
      for (std::int64_t at = 0; at < count; at += Transformer::kLogitRows) {
        const std::int64_t rows = std::min(Transformer::kLogitRows, count - at);
        const float* from = transformer.logits(
            team, std::span(plan.draw_rows).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(rows)),
            scratch);
        if (team.rank() == 0) std::copy_n(from, rows * vocab_size, logits.data() + (first + at) * vocab_size);
      }
    });
  }
  return logits;
}

}  // namespace qrl::decoder::test

// Tests gated DeltaNet layers in the decoder: adapters, rotation, a profile, and slots of states.
#include <algorithm>
#include <cmath>

#include "decoder/fixtures.h"
#include "decoder/kv/delta_states.h"
#include "model/adapter.h"
#include "support/catch.h"
#include "support/models.h"

namespace qrl::decoder::test {

namespace {

/// Returns the tiny model with input widths that blocks of 32 divide.
model::ModelConfig even_delta_config() {
  model::ModelConfig config = tiny_config(model::Family::qwen3_5);
  config.hidden_size = 64, config.intermediate_size = 96, config.head_dim = 16;
  config.num_attention_heads = 4, config.num_key_value_heads = 2;
  return config;
}

double distance_of(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace

TEST_CASE(
    "DeltaNet with adapters: equals a model whose weights have them, also of the matrix that is never quantized") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_5);
  const model::Weights weights = tiny_weights(config);
  model::LoraConfig lora;
  lora.rank = 5;
  model::Weights adapters;
  for (const model::WeightSpec& spec : model::adapter_specs(config, lora)) {
    base::Buffer values(base::DType::f32, spec.shape);
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i)
      values.as<float>()[i] = 0.02F * static_cast<float>((i * 5) % 7 - 3);
    adapters.emplace(spec.name, std::move(values));
  }
  CHECK(adapters.contains("model.layers.0.linear_attn.in_proj_a.lora_A.weight"));
  for (const quant::Format format : {quant::Format::f32, quant::Format::int8}) {
    CAPTURE(quant::name(format));
    model::SnapshotFormats formats(format);
    formats.lora = lora;
    model::Snapshot adapted(config, formats), merged(config, quant::Format::f32);
    adapted.publish(model::views(weights), 0);
    adapted.publish_adapters(model::views(adapters), 1);
    merged.publish(model::merged_weights(config, weights, lora, adapters), 0);
    const std::vector<float> want = forced_logits(merged, kPrompts[0]);
    const std::vector<float> without = forced_logits(*publish(config, weights, quant::Format::f32), kPrompts[0]);
    const double distance = distance_of(forced_logits(adapted, kPrompts[0]), want);
    CHECK(distance_of(without, want) > 0.1);
    CHECK(distance < (format == quant::Format::f32 ? 1e-5 : 0.15));
  }
}

TEST_CASE("DeltaNet in low bits: rotated or not, near fp32, and any chunks have the same bits") {
  const model::ModelConfig config = even_delta_config();
  const model::Weights weights = tiny_weights(config);
  const std::vector<float> want = forced_logits(*publish(config, weights, quant::Format::f32), kPrompts[0]);
  const double size = distance_of(want, std::vector<float>(want.size()));
  for (const quant::Format format : {quant::Format::int8, quant::Format::fp8_channel, quant::Format::int4}) {
    for (const std::int64_t block : {0, 32}) {
      CAPTURE(quant::name(format), block);
      model::SnapshotFormats formats(format);
      formats.rotation = {block};
      const auto snapshot = publish(config, weights, formats);
      CHECK(snapshot->layer(0).qkvz.format == format);
      CHECK(snapshot->layer(0).ba.format == quant::Format::bf16);
      CHECK(snapshot->layer(0).qkvz.rotation.block == block);
      CHECK(!snapshot->layer(0).ba.rotation);
      const std::vector<float> got = forced_logits(*snapshot, kPrompts[0]);
      CHECK(distance_of(got, want) > 0);
      CHECK(distance_of(got, want) < (format == quant::Format::int4 ? 0.7 : 0.3) * size);
      for (const std::int64_t chunk : {1, 5})
        CHECK(forced_logits(*snapshot, kPrompts[0], {.chunk_tokens = chunk}) == got);
    }
  }
}

TEST_CASE("state slots: one a sequence, others for shared prompts, and none without DeltaNet layers") {
  CHECK(num_state_slots(1, true) == 2);
  CHECK(num_state_slots(256, true) == 289);
  CHECK(num_state_slots(256, false) == 256);
  CHECK(state_slot_bytes(tiny_config()) == 0);
  const model::ModelConfig config = tiny_config(model::Family::qwen3_5);
  const std::int64_t bytes = ops::delta_state_bytes(model::delta_shape(config));
  CHECK(state_slot_bytes(config) == bytes);
  CHECK(bytes >= 4 * (4 * 16 * 32 + 3 * 192));
  CHECK(bytes % 64 == 0);
  CHECK(state_slots_of({.max_num_seqs = 8}) == 10);
  CHECK(state_slots_of({.max_num_seqs = 8, .state_slots = 20}) == 20);
  DeltaStates states(config, 3);
  states.allocate();
  CHECK(states.state(2, 0) - states.state(1, 0) == bytes);
  std::fill_n(states.state(1, 0), bytes, std::byte{7});
  const StateCopy copy{1, 2};
  base::parallel(2, [&](base::Team& team) { states.copy(team, {&copy, 1}); });
  CHECK(std::equal(states.state(1, 0), states.state(1, 0) + bytes, states.state(2, 0)));
  CHECK(states.state(0, 0)[0] == std::byte{0});
}

TEST_CASE("DeltaNet: few slots delay sequences, and change no bit") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_5);
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::bf16);
  const auto draw = [&](std::int64_t slots, bool sharing) {
    Decoder decoder(config, {.max_num_seqs = 8,
                             .max_num_batched_tokens = 20,
                             .page_size = 4,
                             .kv_pages = 200,
                             .max_model_len = 60,
                             .prefix_sharing = sharing,
                             .state_slots = slots});
    decoder.load(*snapshot);
    std::vector<types::SampleRequest> requests;
    for (std::uint64_t i = 0; i < 4; ++i) requests.push_back({i, kPrompts[i % 2], 0, 5});
    std::vector<std::vector<types::TokenId>> drawn;
    for (const types::Completion& one : decoder.complete(requests, {.temperature = 1, .max_new_tokens = 20}, {3, 4}))
      drawn.push_back(one.tokens);
    return std::pair(drawn, decoder.stats());
  };
  const auto [want, all] = draw(40, true);
  CHECK(all.shared_prompt_tokens == 2 * 4 * 17 + 2 * 4 * 2);
  for (const std::int64_t slots : {2, 3, 5, 10}) {
    CAPTURE(slots);
    const auto [got, stats] = draw(slots, true);
    CHECK(got == want);
    CHECK(stats.ticks >= all.ticks);
    CHECK(draw(slots, false).first == want);
  }
}

}  // namespace qrl::decoder::test

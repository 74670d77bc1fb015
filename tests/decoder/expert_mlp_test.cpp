// Tests a mixture of experts in the sampler: transformers' numbers, equal bits in any block of rows, experts counted.
#include <algorithm>

#include "base/rng.h"
#include "decoder/fixtures.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/weights.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;

std::vector<types::TokenId> ids_of(const state::SafetensorsFile& file, const std::string& name) {
  const base::Buffer ids = file.read(name);
  const auto* values = ids.as<std::int64_t>();
  return {values, values + ids.shape().numel()};
}

std::vector<types::Completion> completions_of(const model::Snapshot& snapshot, const DecoderOptions& options,
                                              const Sequences& prompts) {
  Decoder decoder(snapshot.config(), options);
  decoder.load(snapshot);
  std::vector<types::SampleRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) requests.push_back({i, prompts[i], 0, 3});
  return decoder.complete(requests, {.temperature = 0.9F, .max_new_tokens = 30}, {5, 1});
}

}  // namespace

TEST_CASE("MoE: logits and greedy tokens equal transformers'") {
  for (const std::string name : {"hf_qwen3_moe", "hf_qwen3_moe_mixed"}) {
    const auto dir = qrl::test::shipped_data() / "golden" / name;
    const qrl::test::LoadedModel model = qrl::test::load_hf(dir);
    const state::SafetensorsFile golden(dir / "golden.safetensors");
    const auto snapshot = publish(model.config, model.weights, quant::Format::f32);
    on_every_path([&](const std::string& path) {
      CAPTURE(name, path);
      for (int i = 0; i < 3; ++i) {
        const base::Buffer want = golden.read_f32("logits." + std::to_string(i));
        const auto got = forced_logits(*snapshot, ids_of(golden, "input_ids." + std::to_string(i)));
        REQUIRE(static_cast<std::int64_t>(got.size()) == want.shape().numel());
        for (std::size_t k = 0; k < got.size(); ++k) REQUIRE(qrl::test::close(got[k], want.as<float>()[k], 2e-5, 0));
      }
      Decoder decoder(model.config, {.max_num_batched_tokens = 16,
                                     .page_size = 4,
                                     .kv_pages = 32,
                                     .max_model_len = 80,
                                     .kv_format = quant::KvFormat::f32});
      decoder.load(*snapshot);
      const auto prompt = ids_of(golden, "greedy.prompt");
      const types::SampleRequest request{1, prompt, 0, 1};
      const auto drawn = decoder.complete({&request, 1}, {.temperature = 0, .max_new_tokens = 64}, {}).at(0).tokens;
      CHECK(drawn == ids_of(golden, "greedy.tokens"));
    });
  }
}

TEST_CASE("MoE: more rows than a layer takes at once change no bit, in every format") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_moe);
  const model::Weights weights = tiny_weights(config);
  Sequences prompts(10);
  base::RandomStream random(7, base::RandomPurpose::test, 0);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (std::size_t t = 0; t < 55 + i; ++t) prompts[i].push_back(static_cast<types::TokenId>(random.below(67)));
  }
  REQUIRE(10 * 55 > Transformer::kExpertRows);
  const DecoderOptions large{
      .max_num_seqs = 64, .max_num_batched_tokens = 1024, .page_size = 16, .kv_pages = 100, .max_model_len = 100};
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<quant::Format>(i);
    const auto snapshot = publish(config, weights, format);
    DecoderOptions small = large;
    small.max_num_batched_tokens = 3;
    const auto want = completions_of(*snapshot, small, prompts);
    for (const int num_threads : {1, 2, 3}) {
      CAPTURE(quant::name(format), num_threads);
      const ThreadsForScope threads(num_threads);
      const auto got = completions_of(*snapshot, large, prompts);
      REQUIRE(got.size() == want.size());
      for (std::size_t c = 0; c < got.size(); ++c) {
        CHECK(got[c].tokens == want[c].tokens);
        CHECK(got[c].sampler_logprobs == want[c].sampler_logprobs);
      }
    }
  }
}

TEST_CASE("MoE: counts experts read in decoding, k per layer for one row, at most all for many") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_moe);
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8);
  const auto read_a_tick = [&](std::int32_t num_samples) {
    const ThreadsForScope threads(1);
    Decoder decoder(config, {.max_num_batched_tokens = 64, .page_size = 16, .kv_pages = 100, .max_model_len = 80});
    decoder.load(*snapshot);
    const types::SampleRequest request{1, kPrompts[0], 0, num_samples};
    (void)decoder.complete({&request, 1}, {.temperature = 1, .max_new_tokens = 30}, {});
    REQUIRE(decoder.stats().decode_ticks > 20);
    return static_cast<double>(decoder.stats().decode_experts) / static_cast<double>(decoder.stats().decode_ticks);
  };
  CHECK(read_a_tick(1) == 2 * 2);
  const double many = read_a_tick(40);
  CHECK(many > 3.5 * 2);
  CHECK(many <= 5 * 2);
}

TEST_CASE("MoE with attention adapters: logits change with the adapters, and equal those of single rows") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_moe);
  model::SnapshotFormats formats(quant::Format::int8);
  formats.lora.rank = 3;
  formats.lora.target_modules = {"q_proj", "o_proj"};
  model::Snapshot snapshot(config, formats);
  snapshot.publish(model::views(tiny_weights(config)), 0);
  const std::vector<float> without = forced_logits(snapshot, kPrompts[0]);
  model::Weights adapters;
  for (const model::WeightSpec& spec : model::adapter_specs(config, formats.lora)) {
    base::Buffer values(base::DType::f32, spec.shape);
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i)
      values.as<float>()[i] = 0.1F * static_cast<float>((i * 5) % 7 - 3);
    adapters.emplace(spec.name, std::move(values));
  }
  snapshot.publish_adapters(model::views(adapters), 1);
  const std::vector<float> with = forced_logits(snapshot, kPrompts[0]);
  CHECK(with != without);
  const std::vector<types::TokenId> first(kPrompts[0].begin(), kPrompts[0].begin() + 1);
  const std::vector<float> alone = forced_logits(snapshot, first);
  CHECK(std::equal(alone.begin(), alone.end(), with.begin()));
}

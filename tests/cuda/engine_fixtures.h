// Owns the helpers of the tests of the engine below the decoder: engines, options, requests.
#pragma once

#include "decoder/decoder.h"
#include "decoder/device/device_backend.h"
#include "decoder/fixtures.h"
#include "device.h"
#include "model/adapter.h"

namespace qrl::cuda::test {

using decoder::DecoderOptions;
using quant::Format;
using quant::KvFormat;

enum class Gemms : std::uint8_t { rounded, f32 };

inline std::unique_ptr<cuda::DecodeEngine> make_engine(const model::ModelConfig& config, const DecoderOptions& options,
                                                       Gemms gemms = Gemms::rounded) {
  cuda::EngineOptions engine_options = decoder::engine_options(config, options);
  engine_options.f32_gemms = gemms == Gemms::f32;
  return target::make_device_engine(engine_options);
}

inline DecoderOptions options_of(KvFormat kv_format, std::int64_t kv_pages = 200) {
  DecoderOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 12;
  options.page_size = 4;
  options.kv_pages = kv_pages;
  options.max_model_len = 64;
  options.kv_format = kv_format;
  return options;
}

inline std::vector<types::TokenId> random_tokens(int count, std::uint64_t index) {
  base::RandomStream random(2, base::RandomPurpose::test, index);
  std::vector<types::TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<types::TokenId>(random.below(67)));
  return tokens;
}

struct Prompts {
  std::vector<std::vector<types::TokenId>> tokens;
  std::vector<types::SampleRequest> requests;
};
inline Prompts prompts() {
  Prompts all;
  for (const int length : {1, 9, 8, 17})
    all.tokens.push_back(random_tokens(length, static_cast<std::uint64_t>(length)));
  for (std::size_t i = 0; i < all.tokens.size(); ++i) {
    types::SampleRequest request;
    request.prompt_id = i + 5;
    request.prompt_tokens = all.tokens[i];
    request.num_samples = 3;
    all.requests.push_back(request);
  }
  return all;
}

/// Returns formats of matrices with an lm_head in int8.
inline model::SnapshotFormats with_int8_head(Format format) {
  model::SnapshotFormats formats(format);
  formats.int8_lm_head = true;
  return formats;
}

inline types::SamplingParams sampling() {
  types::SamplingParams params;
  params.max_new_tokens = 10;
  params.stop_tokens = {3};
  return params;
}

/// Returns formats with rank 3 on some modules, so that a matrix has adapters on all, some or none of its modules.
inline model::SnapshotFormats with_adapters(Format format) {
  model::SnapshotFormats formats(format);
  formats.lora.rank = 3;
  formats.lora.alpha = 2;
  formats.lora.target_modules = {"q_proj", "v_proj", "o_proj", "up_proj", "model.layers.0.mlp.down_proj"};
  return formats;
}

/// Returns A and B with all entries nonzero, or with B zero.
inline model::Weights adapters_of(const model::ModelConfig& config, const model::LoraConfig& lora, std::uint64_t seed,
                                  bool b_is_zero = false) {
  return model::read_adapters(config, lora, model::WeightSource([=](const model::WeightSpec& spec, float* to) {
                                std::uint64_t index = seed;
                                for (const char c : spec.name) index = index * 31 + static_cast<unsigned char>(c);
                                const bool is_zero = b_is_zero && spec.name.find("lora_B") != std::string::npos;
                                const std::vector<float> values = normal_values(spec.shape.numel(), 0.2F, index);
                                for (std::size_t i = 0; i < values.size(); ++i)
                                  to[i] = (spec.kind == model::WeightKind::norm ? 1.0F : 0.0F) +
                                          (is_zero ? 0.0F : values[i]);
                              }));
}

/// Publishes weights, then adapters.
inline std::unique_ptr<model::Snapshot> publish_adapted(const model::ModelConfig& config,
                                                        const model::SnapshotFormats& formats, bool b_is_zero) {
  auto snapshot = std::make_unique<model::Snapshot>(config, formats);
  snapshot->publish(model::views(decoder::test::tiny_weights(config)), 0);
  snapshot->publish_adapters(model::views(adapters_of(config, formats.lora, 1, b_is_zero)), 1);
  return snapshot;
}

inline std::vector<types::Completion> draw(decoder::Decoder& decoder, const Prompts& given) {
  return decoder.complete(given.requests, sampling(), {7, 2});
}
inline std::vector<types::Completion> draw_there(const model::Snapshot& snapshot, const DecoderOptions& options,
                                                 Gemms gemms = Gemms::rounded) {
  decoder::Decoder decoder(
      snapshot.config(), options,
      decoder::make_device_backend(snapshot.config(), options, make_engine(snapshot.config(), options, gemms)));
  decoder.load(snapshot);
  return draw(decoder, prompts());
}

}  // namespace qrl::cuda::test

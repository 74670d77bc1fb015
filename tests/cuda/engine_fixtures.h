// Owns the helpers of the tests of the engine below the decoder: engines, options, requests.
#pragma once

#include "decoder/decoder.h"
#include "decoder/device/device_backend.h"
#include "decoder/fixtures.h"
#include "device.h"

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

}  // namespace qrl::cuda::test

// Tests the decoder's contract apart from numerics: errors, versions, memory, ends.
#include "decoder/decoder.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "decoder/fixtures.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::SampleRequest;
using types::SamplingParams;
using types::TokenId;

/// Returns the kind of error that `body` throws; nothing if it throws none.
std::optional<base::ErrorKind> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Error& error) {
    UNSCOPED_INFO(error.what());
    return error.kind();
  }
  return std::nullopt;
}

DecoderOptions options_of(std::int64_t kv_pages, std::int64_t max_model_len) {
  return {.page_size = 4, .kv_pages = kv_pages, .max_model_len = max_model_len};
}

const std::vector<TokenId> kPrompt{1, 2, 3, 4, 5};

SamplingParams params_of(std::int32_t max_new_tokens) {
  SamplingParams params;
  params.max_new_tokens = max_new_tokens;
  return params;
}

}  // namespace

TEST_CASE("decoder options: out of range is an input error") {
  const model::ModelConfig config = tiny_config();
  for (auto spoil : std::vector<std::function<void(DecoderOptions&)>>{
           [](DecoderOptions& o) { o.max_num_seqs = 0; }, [](DecoderOptions& o) { o.max_num_batched_tokens = 0; },
           [](DecoderOptions& o) { o.page_size = 0; }, [](DecoderOptions& o) { o.kv_pages = 0; },
           [](DecoderOptions& o) { o.max_model_len = 0; },
           [&](DecoderOptions& o) { o.max_model_len = config.max_position_embeddings + 1; }}) {
    DecoderOptions options = options_of(10, 40);
    REQUIRE_FALSE(error_of([&] { Decoder(config, options); }));
    spoil(options);
    CHECK(error_of([&] { Decoder(config, options); }) == base::ErrorKind::input);
  }
}

TEST_CASE("requests: parameters out of range are input errors before anything is sampled") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Decoder decoder(config, options_of(6, 25));
  decoder.load(*snapshot);
  const SampleRequest good{1, kPrompt, 0, 2};
  const auto complete = [&](SampleRequest second, SamplingParams params) {
    const std::vector<SampleRequest> requests{good, second};
    return error_of([&] { decoder.complete(requests, params, {}); });
  };
  const std::vector<TokenId> empty, outside{1, 67}, negative{-1};
  const auto with_prompt = [](const std::vector<TokenId>& prompt) { return SampleRequest{2, prompt, 0, 1}; };
  CHECK(complete(with_prompt(empty), params_of(3)) == base::ErrorKind::input);
  CHECK(complete(with_prompt(outside), params_of(3)) == base::ErrorKind::input);
  CHECK(complete(with_prompt(negative), params_of(3)) == base::ErrorKind::input);
  CHECK(complete({2, kPrompt, 0, 0}, params_of(3)) == base::ErrorKind::input);
  CHECK(complete({2, kPrompt, -1, 1}, params_of(3)) == base::ErrorKind::input);
  for (auto spoil : std::vector<std::function<void(SamplingParams&)>>{
           [](SamplingParams& p) { p.max_new_tokens = 0; }, [](SamplingParams& p) { p.temperature = -1; },
           [](SamplingParams& p) { p.temperature = NAN; }, [](SamplingParams& p) { p.temperature = INFINITY; },
           [](SamplingParams& p) { p.top_p = 0; }, [](SamplingParams& p) { p.top_p = 1.1F; },
           [](SamplingParams& p) { p.top_p = NAN; }, [](SamplingParams& p) { p.top_k = 0; }}) {
    SamplingParams params = params_of(3);
    spoil(params);
    CHECK(complete(good, params) == base::ErrorKind::input);
  }
  // 5 prompt + 20 new tokens = 25 = max_model_len, and 24 KV positions = 6 pages of 4: fits exactly.
  CHECK(complete(good, params_of(21)) == base::ErrorKind::input);
  CHECK(decoder.stats().ticks == 0);
  CHECK_FALSE(complete(good, params_of(20)));
  CHECK(decoder.stats().ticks > 0);

  Decoder few_pages(config, options_of(5, 25));
  few_pages.load(*snapshot);
  CHECK(error_of([&] { few_pages.complete({&good, 1}, params_of(17), {}); }) == base::ErrorKind::input);
  CHECK_FALSE(error_of([&] { few_pages.complete({&good, 1}, params_of(16), {}); }));
}

TEST_CASE("decoder: misuse is an internal error") {
  const model::ModelConfig config = tiny_config();
  Decoder decoder(config, options_of(10, 40));
  const SampleRequest request{1, kPrompt, 0, 1};
  CHECK(error_of([&] { decoder.complete({&request, 1}, params_of(3), {}); }) == base::ErrorKind::internal);
  const model::Snapshot unpublished(config, quant::Format::f32);
  CHECK(error_of([&] { decoder.load(unpublished); }) == base::ErrorKind::internal);
  const model::ModelConfig other = tiny_config(model::Family::llama);
  const auto snapshot = publish(other, tiny_weights(other), quant::Format::f32);
  CHECK(error_of([&] { decoder.load(*snapshot); }) == base::ErrorKind::internal);
}

TEST_CASE("tokens: carry the version that sampled them, and publishing needs no new load") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config, 1), quant::Format::int8, 4);
  Decoder decoder(config, options_of(10, 40));
  decoder.load(*snapshot);
  const SampleRequest request{1, kPrompt, 0, 1};
  const auto before = decoder.complete({&request, 1}, params_of(12), {}).front();
  CHECK(before.versions == std::vector<std::int64_t>(12, 4));
  snapshot->publish(model::views(tiny_weights(config, 2)), 5);
  const auto after = decoder.complete({&request, 1}, params_of(12), {}).front();
  CHECK(after.versions == std::vector<std::int64_t>(12, 5));
  CHECK(after.tokens != before.tokens);
}

TEST_CASE("load: another snapshot in another format replaces the first") {
  const model::ModelConfig config = tiny_config();
  const model::Weights weights = tiny_weights(config);
  Decoder decoder(config, options_of(10, 40));
  const SampleRequest request{1, kPrompt, 0, 1};
  std::vector<types::Completion> completions;
  for (const quant::Format format :
       {quant::Format::f32, quant::Format::int8, quant::Format::bf16, quant::Format::f32}) {
    const auto snapshot = publish(config, weights, format);
    decoder.load(*snapshot);
    completions.push_back(decoder.complete({&request, 1}, params_of(12), {}).front());
  }
  CHECK(completions.front().sampler_logprobs == completions.back().sampler_logprobs);
  CHECK(completions.front().sampler_logprobs != completions[1].sampler_logprobs);
}

TEST_CASE("publish: an internal error during a call") {
#if defined(__SANITIZE_THREAD__)
  return qrl::test::skip("it is the data race that ThreadSanitizer would report");
#endif
  const model::ModelConfig config = tiny_config();
  const model::Weights weights = tiny_weights(config);
  const auto snapshot = publish(config, weights, quant::Format::f32, 1);
  Decoder decoder(config, options_of(1000, 400));
  decoder.load(*snapshot);
  const SampleRequest request{1, kPrompt, 0, 2000};
  // Publishes repeatedly, so that one publish happens during the call whenever the call starts.
  std::atomic<bool> done = false;
  std::thread publisher([&] {
    for (std::int64_t version = 2; !done; ++version) snapshot->publish(model::views(weights), version);
  });
  const auto error = error_of([&] { decoder.complete({&request, 1}, params_of(395), {}); });
  done = true;
  publisher.join();
  CHECK(error == base::ErrorKind::internal);
  // The decoder is usable after an error.
  const SampleRequest small{1, kPrompt, 0, 3};
  CHECK_FALSE(error_of([&] { decoder.complete({&small, 1}, params_of(5), {}); }));
}

TEST_CASE("logits that overflow: an input error on any number of threads, never a hang") {
  const model::ModelConfig config = tiny_config(model::Family::llama);
  const model::Weights weights = tiny_weights(config);
  float* head = weights.at("lm_head.weight").as<float>();
  for (std::int64_t i = 0; i < config.vocab_size * config.hidden_size; ++i) head[i] *= 1e37F;
  float* gain = weights.at("model.norm.weight").as<float>();
  for (std::int64_t i = 0; i < config.hidden_size; ++i) gain[i] *= 1000;
  const auto snapshot = publish(config, weights, quant::Format::f32);
  for (const int num_threads : {1, 2, 3}) {
    for (const std::int32_t num_samples : {1, 200}) {
      CAPTURE(num_threads, num_samples);
      const ThreadsForScope threads(num_threads);
      Decoder decoder(config, options_of(1000, 40));
      decoder.load(*snapshot);
      const SampleRequest request{1, kPrompt, 0, num_samples};
      CHECK(error_of([&] { decoder.complete({&request, 1}, params_of(4), {}); }) == base::ErrorKind::input);
    }
  }
}

TEST_CASE("KV memory: released and allocated again, gives the same samples") {
  const model::ModelConfig config = tiny_config();
  KvCache kv(config, 10, 4, quant::KvFormat::bf16);
  CHECK_FALSE(kv.allocated());
  kv.allocate();
  CHECK(kv.allocated());
  kv.release();
  CHECK_FALSE(kv.allocated());

  const auto snapshot = publish(config, tiny_weights(config), quant::Format::bf16);
  Decoder decoder(config, options_of(20, 40));
  decoder.load(*snapshot);
  const SampleRequest request{1, kPrompt, 0, 3};
  const auto first = decoder.complete({&request, 1}, params_of(20), {});
  decoder.release_kv();
  const auto second = decoder.complete({&request, 1}, params_of(20), {});
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].tokens == second[i].tokens);
    CHECK(first[i].sampler_logprobs == second[i].sampler_logprobs);
  }
}

TEST_CASE("decoder: no requests give no completions, statistics count rows and can be reset") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Decoder decoder(config, options_of(40, 40));
  decoder.load(*snapshot);
  CHECK(decoder.complete({}, params_of(3), {}).empty());
  CHECK(decoder.stats().ticks == 0);

  const SampleRequest request{1, kPrompt, 0, 3};
  decoder.complete({&request, 1}, params_of(6), {});
  const DecoderStats& stats = decoder.stats();
  CHECK(stats.prefill_tokens == 5 + 1 + 1);  // the leader's prompt, and the last prompt token of each other sample
  CHECK(stats.shared_prompt_tokens == 2 * 4);
  CHECK(stats.decode_tokens == 3 * 5);           // the last sampled token is never an input
  CHECK(stats.decode_only_tokens == 3 * 5 - 1);  // the leader's first token shares a tick with the others' prompt
  CHECK(stats.ticks == 7);
  CHECK(stats.peak_kv_pages == 3 * 3 - 2);  // 10 positions each; the first page is shared
  decoder.reset_stats();
  CHECK(decoder.stats().ticks == 0);
}

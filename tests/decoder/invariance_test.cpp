// Tests that only weights, tokens and key determine a token and its log-prob's bits. Runs the same requests under every
// layout, schedule and thread count, in every weight format.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string>

#include "base/rng.h"
#include "decoder/cpu/teacher_forcing.h"
#include "decoder/fixtures.h"
#include "ops/sample.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::Completion;
using types::TokenId;

constexpr types::SampleKey kKey{11, 3};
const types::SamplingParams kParams{
    .temperature = 0.9F, .max_new_tokens = 40, .stop_tokens = {5, 17}, .wants_routes = true};

struct Requests {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<types::SampleRequest> requests;
};

/// Returns prompts of 1 to 40 tokens, including exactly one page, one page plus one, and two pages of 16.
Requests make_requests() {
  Requests made;
  base::RandomStream random(5, base::RandomPurpose::test, 0);
  const std::vector<int> lengths{1, 16, 7, 17, 32, 40, 3};
  for (const int length : lengths) {
    std::vector<TokenId>& prompt = made.prompts.emplace_back();
    for (int i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(random.below(67)));
  }
  for (std::size_t i = 0; i < made.prompts.size(); ++i) {
    const std::uint64_t prompt_id = i + (i % 2 == 0 ? 0 : std::uint64_t{1} << 40);
    made.requests.push_back({prompt_id, made.prompts[i], static_cast<std::int32_t>(i % 3), i == 2 ? 1 : 6});
  }
  return made;
}

DecoderOptions base_options() {
  return {.max_num_seqs = 64, .max_num_batched_tokens = 256, .page_size = 16, .kv_pages = 400, .max_model_len = 80};
}

struct Outcome {
  std::vector<Completion> completions;
  DecoderStats stats;
};

Outcome complete(const model::Snapshot& snapshot, const DecoderOptions& options,
                 std::span<const types::SampleRequest> requests, const types::SamplingParams& params = kParams,
                 const KvScales* kv_scales = nullptr) {
  Decoder decoder(snapshot.config(), options);
  decoder.load(snapshot);
  if (kv_scales != nullptr) decoder.set_kv_scales(*kv_scales);
  Outcome outcome;
  outcome.completions = decoder.complete(requests, params, kKey);
  outcome.stats = decoder.stats();
  return outcome;
}

bool same_bits(const Completion& a, const Completion& b) {
  return a.tokens == b.tokens && a.stop == b.stop && a.versions == b.versions && a.routes == b.routes &&
         std::ranges::equal(a.sampler_logprobs, b.sampler_logprobs, [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

bool same_bits(const std::vector<Completion>& a, const std::vector<Completion>& b) {
  return std::ranges::equal(a, b, [](const Completion& x, const Completion& y) { return same_bits(x, y); });
}

void for_every_format(const std::function<void(const model::Snapshot&)>& body) {
  const auto run = [&](model::Family family, quant::Format format) {
    const model::ModelConfig config = tiny_config(family);
    const auto snapshot = publish(config, tiny_weights(config), format, 7);
    CAPTURE(model::spec_of(family).model_type, quant::name(format));
    body(*snapshot);
  };
  for (int i = 0; i < quant::kNumFormats; ++i) run(model::Family::qwen3, static_cast<quant::Format>(i));
  for (const auto format : {quant::Format::bf16, quant::Format::int8}) run(model::Family::qwen3_moe, format);
  for (const auto format :
       {quant::Format::f32, quant::Format::bf16, quant::Format::int8, quant::Format::fp8_channel, quant::Format::int4})
    run(model::Family::qwen3_5, format);
}

/// Calls body(check_same, stats of the reference run) in every format, and in some with experts or a DeltaNet.
/// check_same(options) completes the requests with those options, compares bits with base_options(), and returns the
/// stats.
template <class Body>
void for_every_variant(Body body) {
  const Requests made = make_requests();
  for_every_format([&](const model::Snapshot& snapshot) {
    const Outcome reference = complete(snapshot, base_options(), made.requests);
    const auto check_same = [&](const DecoderOptions& options) {
      const Outcome outcome = complete(snapshot, options, made.requests);
      CHECK(same_bits(outcome.completions, reference.completions));
      return outcome.stats;
    };
    body(check_same, reference.stats);
  });
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("logit tile: its size changes no bit") {
  model::ModelConfig config = tiny_config();
  config.vocab_size = 700;
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8);
  const Requests made = make_requests();
  for (const float temperature : {1.0F, 0.7F, 0.0F}) {
    types::SamplingParams params = kParams;
    params.temperature = temperature;
    std::vector<std::vector<Completion>> outcomes;
    for (const std::int64_t tile : {8192, 512, 256}) {
      DecoderOptions options = base_options();
      options.logit_tile_tokens = tile;
      Decoder decoder(config, options);
      decoder.load(*snapshot);
      outcomes.push_back(decoder.complete(made.requests, params, kKey));
    }
    CHECK(same_bits(outcomes[0], outcomes[1]));
    CHECK(same_bits(outcomes[0], outcomes[2]));
    // The tokens must come from more than one tile, else the test would prove nothing.
    if (temperature > 0) {
      const auto beyond = [](const Completion& c) {
        return std::ranges::any_of(c.tokens, [](int t) { return t >= 512; });
      };
      CHECK(std::ranges::any_of(outcomes[0], beyond));
    }
  }
}

}  // namespace

TEST_CASE("invariance setup: samples differ, some end early, none is empty") {
  const Requests made = make_requests();
  for_every_format([&](const model::Snapshot& snapshot) {
    const Outcome outcome = complete(snapshot, base_options(), made.requests);
    REQUIRE(outcome.completions.size() == 37);
    std::size_t num_eos = 0, num_length = 0;
    for (const Completion& completion : outcome.completions) {
      REQUIRE(!completion.tokens.empty());
      REQUIRE(completion.sampler_logprobs.size() == completion.tokens.size());
      REQUIRE(completion.versions == std::vector<std::int64_t>(completion.tokens.size(), 7));
      const bool ends = completion.tokens.back() == 5 || completion.tokens.back() == 17;
      REQUIRE((completion.stop == types::StopReason::eos) == ends);
      REQUIRE((ends || completion.tokens.size() == 40));
      REQUIRE(std::none_of(completion.tokens.begin(), completion.tokens.end() - 1,
                           [](TokenId token) { return token == 5 || token == 17; }));
      num_eos += ends, num_length += !ends;
    }
    CHECK(num_eos > 3);
    CHECK(num_length > 3);
    CHECK(outcome.completions[0].tokens != outcome.completions[1].tokens);
  });
}

TEST_CASE("page size: changes no bit of a sample") {
  for_every_variant([](auto check_same, const DecoderStats&) {
    for (const std::int64_t page_size : {1, 2, 3, 5, 8, 13, 31, 32, 64}) {
      CAPTURE(page_size);
      DecoderOptions options = base_options();
      options.page_size = page_size;
      options.kv_pages = 6400 / page_size;
      check_same(options);
    }
  });
}

TEST_CASE("prefill chunks: change no bit of a sample") {
  for_every_variant([](auto check_same, const DecoderStats& reference) {
    for (const std::int64_t rows : {1, 2, 7, 33}) {
      CAPTURE(rows);
      DecoderOptions options = base_options();
      options.max_num_batched_tokens = rows;
      CHECK(check_same(options).ticks > reference.ticks);
    }
  });
}

TEST_CASE("number of sequences in flight: changes no bit of a sample") {
  for_every_variant([](auto check_same, const DecoderStats& reference) {
    for (const std::int64_t num_seqs : {1, 2, 5}) {
      CAPTURE(num_seqs);
      DecoderOptions options = base_options();
      options.max_num_seqs = num_seqs;
      CHECK(check_same(options).ticks > reference.ticks);
    }
  });
}

TEST_CASE("preemption: changes no bit of a sample") {
  for_every_variant([](auto check_same, const DecoderStats& reference) {
    REQUIRE(reference.preemptions == 0);
    for (const bool sharing : {true, false}) {
      for (const std::int64_t page_size : {1, 4}) {
        CAPTURE(sharing, page_size);
        DecoderOptions options = base_options();
        options.prefix_sharing = sharing;
        options.page_size = page_size;
        options.kv_pages = 160 / page_size;
        CHECK(check_same(options).preemptions > 0);
      }
    }
  });
}

TEST_CASE("shared prompts: change no bit of a sample, and save their rows") {
  for_every_variant([](auto check_same, const DecoderStats& reference) {
    REQUIRE(reference.shared_prompt_tokens > 0);
    DecoderOptions options = base_options();
    options.prefix_sharing = false;
    const DecoderStats stats = check_same(options);
    CHECK(stats.shared_prompt_tokens == 0);
    CHECK(stats.prefill_tokens == reference.prefill_tokens + reference.shared_prompt_tokens);
  });
}

TEST_CASE("number of threads: changes no bit of a sample") {
  for_every_variant([](auto check_same, const DecoderStats&) {
    for (const int num_threads : {1, 2, 3}) {
      CAPTURE(num_threads);
      const ThreadsForScope threads(num_threads);
      check_same(base_options());
      DecoderOptions few = base_options();
      few.max_num_seqs = 3;  // one team instead of a part per thread
      check_same(few);
    }
  });
}

TEST_CASE("joined attention spans, grouped rows of shared pages: no layout changes a bit") {
  // With more than a span of 128 positions, samples share one or two spans of their prompt and continue into the next.
  const model::ModelConfig config = tiny_config();
  Requests made;
  base::RandomStream random(5, base::RandomPurpose::test, 1);
  for (const int length : {140, 260}) {
    std::vector<TokenId>& prompt = made.prompts.emplace_back();
    for (int i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(random.below(67)));
  }
  for (std::size_t i = 0; i < made.prompts.size(); ++i) made.requests.push_back({i, made.prompts[i], 0, 3});
  const types::SamplingParams params{.max_new_tokens = 60};
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8, 7);
  const KvScales scales = calibrate_kv(*snapshot, made.prompts, {});
  const ThreadsForScope one_thread(1);
  on_every_path([&](const std::string& path) {
    for (int kv = 0; kv < 4; ++kv) {
      DecoderOptions base = base_options();
      base.max_model_len = 320;
      base.kv_format = static_cast<quant::KvFormat>(kv);
      CAPTURE(path, quant::name(base.kv_format));
      const auto run = [&](const DecoderOptions& options, std::span<const types::SampleRequest> requests) {
        return complete(*snapshot, options, requests, params,
                        options.kv_format == quant::KvFormat::fp8_e4m3 ? &scales : nullptr);
      };
      const Outcome reference = run(base, made.requests);
      REQUIRE(reference.stats.shared_prompt_tokens > 0);
      const auto check_same = [&](const auto& change) {
        DecoderOptions options = base;
        change(options);
        CAPTURE(options.page_size, options.max_num_batched_tokens, options.max_num_seqs, options.kv_pages);
        const Outcome outcome = run(options, made.requests);
        CHECK(same_bits(outcome.completions, reference.completions));
        return outcome.stats;
      };
      check_same([](DecoderOptions& options) { options.prefix_sharing = false; });
      check_same([](DecoderOptions& options) { options.max_num_batched_tokens = 33; });
      check_same([](DecoderOptions& options) { options.max_num_seqs = 1; });
      check_same([](DecoderOptions& options) { options.page_size = 5, options.kv_pages = 1200; });
      CHECK(check_same([](DecoderOptions& options) { options.kv_pages = 26; }).preemptions > 0);
      {
        const ThreadsForScope threads(3);
        check_same([](DecoderOptions&) {});
      }
      // A sample in its own call can only share rows of its own prompt.
      types::SampleRequest last = made.requests.back();
      last.first_sample = 2, last.num_samples = 1;
      CHECK(same_bits(run(base, {&last, 1}).completions.front(), reference.completions.back()));
    }
  });
}

TEST_CASE("other sequences and their order: change no bit of a sample") {
  const Requests made = make_requests();
  for_every_format([&](const model::Snapshot& snapshot) {
    const Outcome reference = complete(snapshot, base_options(), made.requests);
    std::vector<types::SampleRequest> backwards(made.requests.rbegin(), made.requests.rend());
    const Outcome turned = complete(snapshot, base_options(), backwards);
    std::size_t first = 0, turned_first = turned.completions.size();
    for (const types::SampleRequest& request : made.requests) {
      const auto count = static_cast<std::size_t>(request.num_samples);
      turned_first -= count;
      const std::vector<Completion> want(reference.completions.begin() + static_cast<std::ptrdiff_t>(first),
                                         reference.completions.begin() + static_cast<std::ptrdiff_t>(first + count));
      const std::vector<Completion> got(turned.completions.begin() + static_cast<std::ptrdiff_t>(turned_first),
                                        turned.completions.begin() + static_cast<std::ptrdiff_t>(turned_first + count));
      CHECK(same_bits(got, want));
      for (std::size_t i = 0; i < count; ++i) {  // each sample in its own call
        types::SampleRequest one = request;
        one.first_sample += static_cast<std::int32_t>(i);
        one.num_samples = 1;
        CHECK(same_bits(complete(snapshot, base_options(), {&one, 1}).completions.front(), want[i]));
      }
      first += count;
    }
  });
}

TEST_CASE("seed, step, prompt id (both halves), sample index: each changes the samples") {
  const model::ModelConfig config = tiny_config();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Decoder decoder(config, base_options());
  decoder.load(*snapshot);
  const std::vector<TokenId> prompt{1, 2, 3};
  const auto draw = [&](std::uint64_t prompt_id, std::int32_t sample, types::SampleKey key) {
    const types::SampleRequest request{prompt_id, prompt, sample, 1};
    types::SamplingParams params;
    params.max_new_tokens = 12;
    return decoder.complete({&request, 1}, params, key).front().tokens;
  };
  const auto first = draw(4, 0, {1, 2});
  CHECK(draw(4, 0, {1, 2}) == first);
  CHECK(draw(4, 0, {2, 2}) != first);
  CHECK(draw(4, 0, {1, 3}) != first);
  CHECK(draw(5, 0, {1, 2}) != first);
  CHECK(draw(4 + (std::uint64_t{1} << 32), 0, {1, 2}) != first);
  CHECK(draw(4, 1, {1, 2}) != first);
}

TEST_CASE("teacher-forced prefill: reproduces the bits that decoding sampled from") {
  const Requests made = make_requests();
  on_every_path([&](const std::string& path) {
    for_every_format([&](const model::Snapshot& snapshot) {
      CAPTURE(path);
      const Outcome outcome = complete(snapshot, base_options(), made.requests);
      const base::RandomField field(kKey.seed, base::RandomPurpose::sampling);
      std::size_t completion_idx = 0;
      for (std::size_t i = 0; i < made.requests.size(); ++i) {
        const types::SampleRequest& request = made.requests[i];
        for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
          const Completion& completion = outcome.completions[completion_idx++];
          std::vector<TokenId> tokens = made.prompts[i];
          tokens.insert(tokens.end(), completion.tokens.begin(), completion.tokens.end());
          const auto logits = forced_logits(snapshot, tokens, {.kv_format = quant::KvFormat::bf16});
          int num_wrong = 0;
          for (std::size_t t = 0; t < completion.tokens.size(); ++t) {
            const float* row = logits.data() + (made.prompts[i].size() - 1 + t) * 67;
            const auto high = static_cast<std::uint32_t>(request.prompt_id >> 32);
            const double uniform =
                field.uniform({static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(request.first_sample + sample),
                               static_cast<std::uint32_t>(request.prompt_id) ^ (high * 0x9E3779B9U), kKey.step});
            const ops::SampledToken draw = ops::sample(row, 67, {.temperature = kParams.temperature}, uniform);
            num_wrong +=
                draw.token != completion.tokens[t] || std::bit_cast<std::uint32_t>(draw.logprob) !=
                                                          std::bit_cast<std::uint32_t>(completion.sampler_logprobs[t]);
          }
          REQUIRE(num_wrong == 0);
        }
      }
    });
  });
}

TEST_CASE("page order, page size, chunks, threads: change no bit of the logits") {
  std::vector<TokenId> tokens;
  base::RandomStream random(9, base::RandomPurpose::test, 0);
  for (int i = 0; i < 150; ++i) tokens.push_back(static_cast<TokenId>(random.below(67)));
  on_every_path([&](const std::string& path) {
    for_every_format([&](const model::Snapshot& snapshot) {
      for (int kv = 0; kv < 4; ++kv) {
        // Pages store outputs of matmuls. Tests all page formats with fp32 weights, and one page format per other
        // weight format.
        if (snapshot.format() != quant::Format::f32 && static_cast<int>(snapshot.format()) % 4 != kv) continue;
        const auto kv_format = static_cast<quant::KvFormat>(kv);
        CAPTURE(path, quant::name(kv_format));
        const KvScales scales = calibrate_kv(snapshot, std::vector<std::vector<TokenId>>{tokens}, {});
        const auto want =
            forced_logits(snapshot, tokens, {.page_size = 256, .kv_format = kv_format, .kv_scales = scales});
        const auto check_same = [&](const ForcedLayout& layout) {
          CAPTURE(layout.page_size, layout.chunk_tokens, layout.num_threads);
          REQUIRE(equal_bits(forced_logits(snapshot, tokens, layout), want));
        };
        for (const std::int64_t page_size : {1, 3, 16, 64}) {
          for (const std::int64_t chunk_tokens : {1, 37, 64, 150})
            check_same({page_size, chunk_tokens, scattered_pages(150, page_size), 1, kv_format, scales});
        }
        // Runs few multithreaded forwards: on a busy machine each barrier may cost a time slice.
        for (const int num_threads : {2, 3})
          check_same({3, 128, scattered_pages(150, 3), num_threads, kv_format, scales});
      }
    });
  });
}

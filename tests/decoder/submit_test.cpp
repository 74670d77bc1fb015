// Tests a decoder that receives requests while it runs: a request's samples do not depend on other requests or on its
// time of arrival.
#include <bit>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "decoder/backend.h"
#include "decoder/fixtures.h"
#include "decoder/tick_loop.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::Completion;
using types::TokenId;

constexpr int kVocab = 700;

model::ModelConfig config_of_tests() {
  model::ModelConfig config = tiny_config();
  config.vocab_size = kVocab;
  return config;
}

/// Returns two letters per token, so that stop strings begin and end inside tokens.
std::string_view text_of(TokenId token) {
  static const std::string letters = [] {
    std::string all;
    for (int i = 0; i < kVocab; ++i) all += {static_cast<char>('a' + i % 3), static_cast<char>('a' + i / 3 % 3)};
    return all;
  }();
  return std::string_view(letters).substr(static_cast<std::size_t>(token) * 2, 2);
}

DecoderOptions options_of_tests() {
  DecoderOptions options{
      .max_num_seqs = 16, .max_num_batched_tokens = 24, .page_size = 4, .kv_pages = 300, .max_model_len = 80};
  options.logit_tile_tokens = 256;  // more than one tile, unless a row needs all logits
  options.bytes_of = text_of;
  return options;
}

Request request_of(std::uint64_t prompt_id, int prompt_tokens, std::int32_t num_samples, types::SamplingParams params) {
  Request request;
  base::RandomStream random(3, base::RandomPurpose::test, prompt_id);
  for (int i = 0; i < prompt_tokens; ++i) request.prompt_tokens.push_back(static_cast<TokenId>(random.below(kVocab)));
  request.prompt_id = prompt_id;
  request.num_samples = num_samples;
  request.params = std::move(params);
  request.key = {11 + prompt_id, static_cast<std::uint32_t>(prompt_id)};
  return request;
}

/// Returns requests that differ in every setting of a request.
std::vector<Request> different_requests() {
  std::vector<Request> requests{
      request_of(0, 9, 3, {.temperature = 0.9F, .max_new_tokens = 20, .stop_tokens = {5, 17}}),
      request_of(1, 17, 2, {.temperature = 0, .max_new_tokens = 9}),
      request_of(2, 1, 2, {.temperature = 1.3F, .top_k = 9, .max_new_tokens = 14, .max_kept = 9}),
      request_of(3, 8, 4, {.temperature = 1.0F, .max_new_tokens = 30, .stop_strings = {"abc", "ccacc"}}),
      request_of(4, 30, 1, {.temperature = 0.7F, .top_p = 0.8F, .max_new_tokens = 25}),
      request_of(5, 4, 2, {.temperature = 1.5F, .max_new_tokens = 1}),
      request_of(6, 5, 2, {.temperature = 1.1F, .max_new_tokens = 12}),
  };
  requests[6].first_sample = 4;
  requests[6].first_position = 7;
  return requests;
}

std::vector<Completion> alone(const model::Snapshot& snapshot, const Request& request) {
  Decoder decoder(snapshot.config(), options_of_tests());
  decoder.load(snapshot);
  decoder.submit(request);
  while (decoder.tick()) {
  }
  std::vector<FinishedRequest> finished = decoder.take_finished();
  REQUIRE(finished.size() == 1);
  return std::move(finished.front().completions);
}

bool same_completion(const Completion& a, const Completion& b) {
  return a.tokens == b.tokens && a.stop == b.stop && a.versions == b.versions && a.kept == b.kept &&
         std::ranges::equal(a.sampler_logprobs, b.sampler_logprobs, [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

std::string text_of(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += text_of(token);
  return text;
}

}  // namespace

TEST_CASE("requests: bits do not depend on other requests or on submission times") {
  const model::ModelConfig config = config_of_tests();
  const model::Weights weights = tiny_weights(config);
  const std::vector<Request> requests = different_requests();
  for (const quant::Format format : {quant::Format::f32, quant::Format::int8, quant::Format::int4}) {
    CAPTURE(quant::name(format));
    const auto snapshot = publish(config, weights, format, 7);
    std::vector<std::vector<Completion>> want;
    for (const Request& request : requests) want.push_back(alone(*snapshot, request));
    bool any_eos = false;
    for (const Completion& completion : want[3]) any_eos = any_eos || completion.stop == types::StopReason::eos;
    CHECK(any_eos);  // a stop string ended a sample
    for (const int ticks_between : {0, 1, 4, 30}) {
      for (const bool few_pages : {false, true}) {
        CAPTURE(ticks_between, few_pages);
        DecoderOptions options = options_of_tests();
        if (few_pages) options.kv_pages = 14;
        const ThreadsForScope threads(1 + ticks_between % 3);
        Decoder decoder(config, options);
        decoder.load(*snapshot);
        std::vector<FinishedRequest> finished;
        const auto take = [&] { std::ranges::move(decoder.take_finished(), std::back_inserter(finished)); };
        std::vector<std::size_t> order{4, 0, 6, 2, 1, 5, 3};
        std::map<RequestId, std::size_t> submitted;
        for (const std::size_t i : order) {
          submitted[decoder.submit(requests[i])] = i;
          for (int tick = 0; tick < ticks_between; ++tick) decoder.tick();
          take();
        }
        while (decoder.tick()) take();
        take();
        CHECK_FALSE(decoder.tick());
        REQUIRE(finished.size() == requests.size());
        for (const FinishedRequest& each : finished) {
          const std::size_t i = submitted.at(each.id);
          CAPTURE(i);
          REQUIRE(each.completions.size() == want[i].size());
          for (std::size_t s = 0; s < want[i].size(); ++s) CHECK(same_completion(each.completions[s], want[i][s]));
        }
        if (few_pages && ticks_between < 4) CHECK(decoder.stats().preemptions > 0);
      }
    }
  }
}

TEST_CASE("requests: one that resumes from a sample's first tokens reproduces the other tokens") {
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8);
  for (const types::SamplingParams& params :
       {types::SamplingParams{.temperature = 0.9F, .max_new_tokens = 20},
        types::SamplingParams{.temperature = 1.2F, .top_k = 20, .max_new_tokens = 20}}) {
    const Request whole = request_of(1, 9, 1, params);
    const Completion want = alone(*snapshot, whole).front();
    for (const std::int32_t first : {1, 7, 19}) {
      CAPTURE(first);
      Request rest = whole;
      rest.prompt_tokens.insert(rest.prompt_tokens.end(), want.tokens.begin(), want.tokens.begin() + first);
      rest.first_position = first;
      rest.params.max_new_tokens -= first;
      const Completion got = alone(*snapshot, rest).front();
      CHECK(std::ranges::equal(got.tokens, std::span(want.tokens).subspan(static_cast<std::size_t>(first))));
      CHECK(std::ranges::equal(got.sampler_logprobs,
                               std::span(want.sampler_logprobs).subspan(static_cast<std::size_t>(first))));
      rest.first_position = 0;
      CHECK(alone(*snapshot, rest).front().tokens != got.tokens);
    }
  }
}

TEST_CASE("stop strings: a completion ends with the token that completes one") {
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  Request request = request_of(2, 6, 8, {.temperature = 1.0F, .max_new_tokens = 40});
  const std::vector<Completion> free = alone(*snapshot, request);
  int num_ended = 0;
  for (const std::vector<std::string>& stop_strings :
       {std::vector<std::string>{"b"}, {"abca"}, {"cccc", "bab"}, {"aaaaaaaaa"}}) {
    request.params.stop_strings = stop_strings;
    const std::vector<Completion> stopped = alone(*snapshot, request);
    for (std::size_t s = 0; s < free.size(); ++s) {
      std::vector<TokenId> want;
      bool ends = false;
      for (const TokenId token : free[s].tokens) {
        if (ends) break;
        want.push_back(token);
        const std::string text = text_of(want);
        for (const std::string& stop : stop_strings) ends = ends || text.find(stop) != std::string::npos;
      }
      CHECK(stopped[s].tokens == want);
      CHECK(stopped[s].stop == (ends ? types::StopReason::eos : types::StopReason::length));
      num_ended += ends ? 1 : 0;
    }
  }
  CHECK(num_ended > 8);
  CHECK(num_ended < 32);
}

TEST_CASE("stop strings: found across tokens, at any length") {
  const std::vector<std::string> stop_strings{"</answer>", "\n\n"};
  const auto ends_at = [&](const std::vector<std::string>& tokens) {
    std::string tail;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (completes_stop_string(stop_strings, tokens[i], tail)) return static_cast<int>(i);
      CHECK(tail.size() <= 8);
    }
    return -1;
  };
  CHECK(ends_at({"a", "</", "ans", "", "wer", "> b", "\n\n"}) == 5);
  CHECK(ends_at({"a long text with </answer> inside", "\n\n"}) == 0);
  CHECK(ends_at({"\n", " \n", "</answer", "\n", "\n"}) == 4);
  CHECK(ends_at({"</answer", "</answer", " >", "\n"}) == -1);
}

TEST_CASE("requests: impossible ones are refused on submission and harm no others") {
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  const Request good = request_of(1, 5, 2, {.max_new_tokens = 6});
  const std::vector<Completion> want = alone(*snapshot, good);
  Decoder decoder(config, options_of_tests());
  const auto error_of = [&](const auto& spoil) {
    Request request = good;
    spoil(request);
    try {
      decoder.submit(request);
    } catch (const base::Error& error) {
      return std::string(error.kind() == base::ErrorKind::input ? "input" : "internal");
    }
    return std::string();
  };
  CHECK(error_of([](Request&) {}) == "internal");  // nothing was loaded
  decoder.load(*snapshot);
  decoder.submit(good);
  decoder.tick();
  CHECK(error_of([](Request& r) { r.prompt_tokens.clear(); }) == "input");
  CHECK(error_of([](Request& r) { r.first_position = -1; }) == "input");
  CHECK(error_of([](Request& r) { r.params.max_new_tokens = 76; }) == "input");
  CHECK(error_of([](Request& r) { r.params.stop_strings = {"a", ""}; }) == "input");
  // Nothing that requests in flight read may change.
  CHECK_THROWS_AS(decoder.load(*snapshot), base::Error);
  CHECK_THROWS_AS(decoder.release_kv(), base::Error);
  while (decoder.tick()) {
  }
  decoder.release_kv();
  const std::vector<FinishedRequest> finished = decoder.take_finished();
  REQUIRE(finished.size() == 1);
  for (std::size_t s = 0; s < want.size(); ++s) CHECK(same_completion(finished[0].completions[s], want[s]));

  DecoderOptions without_text = options_of_tests();
  without_text.bytes_of = nullptr;
  Decoder other(config, without_text);
  other.load(*snapshot);
  Request with_stop = good;
  with_stop.params.stop_strings = {"a"};
  CHECK_THROWS_AS(other.submit(with_stop), base::Error);
}

TEST_CASE("ticks: an error abandons unfinished requests and leaves the decoder usable") {
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  const Request request = request_of(1, 5, 2, {.max_new_tokens = 6});
  const std::vector<Completion> want = alone(*snapshot, request);
  DecoderOptions options = options_of_tests();
  int ticks_left = 3;
  options.before_tick = [&] {
    if (ticks_left-- == 0) throw base::Error(base::ErrorKind::guard, "test", "a tick", "none", "");
  };
  Decoder decoder(config, options);
  decoder.load(*snapshot);
  decoder.submit(request);
  CHECK_THROWS_AS(
      [&] {
        while (decoder.tick()) {
        }
      }(),
      base::Error);
  CHECK_FALSE(decoder.tick());
  CHECK(decoder.take_finished().empty());
  snapshot->publish(model::views(tiny_weights(config)), 1);  // nothing is in flight
  decoder.submit(request);
  while (decoder.tick()) {
  }
  const std::vector<FinishedRequest> finished = decoder.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].completions[0].tokens == want[0].tokens);
  CHECK(finished[0].completions[0].versions.front() == 1);
}

TEST_CASE("complete: leaves others' requests to take_finished") {
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  const Request request = request_of(1, 5, 2, {.max_new_tokens = 6});
  const std::vector<Completion> want = alone(*snapshot, request);
  Decoder decoder(config, options_of_tests());
  decoder.load(*snapshot);
  const RequestId id = decoder.submit(request);
  decoder.tick();
  const types::SampleRequest same{request.prompt_id, request.prompt_tokens, 0, 2};
  const std::vector<Completion> completions = decoder.complete({&same, 1}, request.params, request.key);
  const std::vector<FinishedRequest> finished = decoder.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].id == id);
  REQUIRE(completions.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(same_completion(completions[s], want[s]));
    CHECK(same_completion(finished[0].completions[s], want[s]));
  }
}

TEST_CASE("ticks: run on the configured number of threads") {
  /// Samples token 0 and records the number of threads of a parallel region.
  struct Recorder final : Backend {
    explicit Recorder(std::vector<int>& seen_) : seen(seen_) {}
    void load(const model::Snapshot&) override {}
    void set_kv_scales(KvScales) override {}
    void calibrate_kv(std::span<const std::vector<TokenId>>, const KvCalibration&) override {}
    const KvScales& kv_scales() const override { return scales; }
    std::int64_t begin() override { return 100; }
    void start(const Plan&, std::span<ops::SampledToken> samples) override {
      base::parallel(0, [&](base::Team& team) {
        if (team.rank() == 0) seen.push_back(team.size());
      });
      std::ranges::fill(samples, ops::SampledToken{});
    }
    void finish() override {}
    void release_kv() override {}
    std::vector<int>& seen;
    KvScales scales;
  };
  const model::ModelConfig config = config_of_tests();
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::f32);
  const ThreadsForScope threads(2);
  for (const int num_threads : {0, 1, 3}) {
    std::vector<int> seen;
    DecoderOptions options = options_of_tests();
    options.num_threads = num_threads;
    Decoder decoder(config, options, std::make_unique<Recorder>(seen));
    decoder.load(*snapshot);
    decoder.submit(request_of(1, 3, 1, {.max_new_tokens = 2}));
    while (decoder.tick()) {
    }
    CHECK(seen == std::vector<int>(2, num_threads == 0 ? 2 : num_threads));
    CHECK(base::num_threads() == 2);
  }
}

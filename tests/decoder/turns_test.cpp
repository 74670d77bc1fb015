// Tests samples that go on after a partner's replies: their bits are those of single turns, whenever replies come and
// however few pages there are.
#include "types/turns.h"

#include <bit>
#include <map>

#include "base/error.h"
#include "decoder/fixtures.h"
#include "decoder/scripted_partner.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::Completion;
using types::TokenId;

DecoderOptions options_of_turns(std::int64_t kv_pages = 300) {
  return {.max_num_seqs = 8, .max_num_batched_tokens = 24, .page_size = 4, .kv_pages = kv_pages, .max_model_len = 64};
}

types::SamplingParams params_of_turns() {
  types::SamplingParams params;
  params.max_new_tokens = kAllTokens;
  params.stop_tokens = {3, 9, 12};
  return params;
}

struct TurnsModel {
  explicit TurnsModel(model::Family family) : config(tiny_config(family)) {}
  model::ModelConfig config;
  std::unique_ptr<model::Snapshot> snapshot = publish(config, tiny_weights(config), quant::Format::f32);
};

std::vector<types::SampleRequest> requests_of_turns() { return {{7, kPrompts[0], 0, 3}, {8, kPrompts[1], 4, 2}}; }

std::vector<Completion> play(const TurnsModel& model, const DecoderOptions& options, int delay) {
  Decoder decoder(model.config, options);
  decoder.load(*model.snapshot);
  ScriptedPartner partner(5, delay);
  return decoder.converse(requests_of_turns(), params_of_turns(), {11, 2}, partner);
}

/// Samples each turn by a request of its own, which begins behind the tokens so far.
std::vector<Completion> turn_by_turn(const TurnsModel& model) {
  Decoder decoder(model.config, options_of_turns());
  decoder.load(*model.snapshot);
  std::vector<Completion> all;
  for (const types::SampleRequest& request : requests_of_turns()) {
    for (std::int32_t i = 0; i < request.num_samples; ++i) {
      const std::size_t sample = all.size();
      Completion& whole = all.emplace_back();
      for (std::size_t turn = 1; turn <= kTurns; ++turn) {
        Request one{request.prompt_id,        {request.prompt_tokens.begin(), request.prompt_tokens.end()},
                    request.first_sample + i, 1,
                    params_of_turns(),        {11, 2}};
        one.prompt_tokens.insert(one.prompt_tokens.end(), whole.tokens.begin(), whole.tokens.end());
        one.first_position = static_cast<std::int32_t>(whole.tokens.size());
        one.params.max_new_tokens =
            static_cast<std::int32_t>(std::min<std::int64_t>(kTurnTokens, kAllTokens - std::ssize(whole.tokens)));
        decoder.submit(one);
        while (decoder.tick()) {
        }
        const Completion drawn = decoder.take_finished().at(0).completions.at(0);
        whole.tokens.insert(whole.tokens.end(), drawn.tokens.begin(), drawn.tokens.end());
        whole.sampler_logprobs.insert(whole.sampler_logprobs.end(), drawn.sampler_logprobs.begin(),
                                      drawn.sampler_logprobs.end());
        whole.sampled.resize(whole.tokens.size(), 1);
        const std::vector<TokenId> tokens = observation_of(sample, turn);
        if (turn == kTurns || whole.tokens.size() + tokens.size() >= kAllTokens) break;
        whole.tokens.insert(whole.tokens.end(), tokens.begin(), tokens.end());
        whole.sampler_logprobs.resize(whole.tokens.size(), 0.0F);
        whole.sampled.resize(whole.tokens.size(), 0);
      }
    }
  }
  return all;
}

void check_same(const std::vector<Completion>& got, const std::vector<Completion>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("sample " << i);
    CHECK(got[i].tokens == want[i].tokens);
    CHECK(got[i].num_sampled() == want[i].num_sampled());
    if (!got[i].sampled.empty()) CHECK(got[i].sampled == want[i].sampled);
    REQUIRE(got[i].sampler_logprobs.size() == want[i].sampler_logprobs.size());
    for (std::size_t t = 0; t < want[i].sampler_logprobs.size(); ++t)
      CHECK(std::bit_cast<std::uint32_t>(got[i].sampler_logprobs[t]) ==
            std::bit_cast<std::uint32_t>(want[i].sampler_logprobs[t]));
  }
}

}  // namespace

TEST_CASE("turns: tokens and log-probs are those of single turns, and an environment's tokens have log-prob 0") {
  const TurnsModel model(GENERATE(model::Family::qwen3, model::Family::qwen3_5));
  const std::vector<Completion> want = turn_by_turn(model);
  check_same(play(model, options_of_turns(), 0), want);
  std::int64_t num_masked = 0;
  for (const Completion& one : want) num_masked += std::ssize(one.tokens) - one.num_sampled();
  CHECK(num_masked > 10);
}

TEST_CASE("turns: late replies in any order change no bit") {
  const TurnsModel model(GENERATE(model::Family::qwen3, model::Family::qwen3_5));
  const std::vector<Completion> want = play(model, options_of_turns(), 0);
  for (const int delay : {1, 3}) check_same(play(model, options_of_turns(), delay), want);
}

TEST_CASE("turns: parked samples lose their pages when pages are short, and are recomputed with the same bits") {
  const TurnsModel model(GENERATE(model::Family::qwen3, model::Family::qwen3_5));
  const std::vector<Completion> want = play(model, options_of_turns(), 0);
  for (const std::int64_t kv_pages : {16, 18, 24, 40}) {
    for (const int delay : {0, 2}) {
      INFO(kv_pages << " pages, delay " << delay);
      DecoderOptions options = options_of_turns(kv_pages);
      check_same(play(model, options, delay), want);
      options.prefix_sharing = false;
      options.max_num_seqs = 2;
      check_same(play(model, options, delay), want);
    }
  }
}

TEST_CASE("turns: a sample may begin with a prompt of its own") {
  class Own final : public types::TurnPartner {
   public:
    void end_turn(std::size_t sample, const Completion&) override { replies_.push_back({sample, true, {}, {}, 0}); }
    std::vector<types::TurnReply> take_replies(bool) override { return std::exchange(replies_, {}); }

   private:
    std::vector<types::TurnReply> replies_ = {{0, false, {}, {}, 5}, {1, false, kPrompts[1], {}, 5}};
  };
  const TurnsModel model(model::Family::qwen3);
  Decoder decoder(model.config, options_of_turns());
  decoder.load(*model.snapshot);
  Own own;
  const types::SampleRequest requests[] = {{7, kPrompts[0], 0, 2}};
  const auto got = decoder.converse(requests, params_of_turns(), {11, 2}, own);
  types::SamplingParams params = params_of_turns();
  params.max_new_tokens = 5;
  const types::SampleRequest alone[] = {{7, kPrompts[0], 0, 1}, {7, kPrompts[1], 1, 1}};
  const auto want = decoder.complete(alone, params, {11, 2});
  REQUIRE(got.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(got[i].tokens == want[i].tokens);
}

TEST_CASE("turns: an error of the partner abandons all samples, and the decoder stays usable") {
  class Failing final : public types::TurnPartner {
   public:
    void end_turn(std::size_t, const Completion&) override { throw std::runtime_error("stop"); }
    std::vector<types::TurnReply> take_replies(bool) override { return std::exchange(replies_, {}); }

   private:
    std::vector<types::TurnReply> replies_ = {{0, false, {}, {}, 5}, {1, false, {}, {}, 5}};
  };
  const TurnsModel model(model::Family::qwen3);
  Decoder decoder(model.config, options_of_turns());
  decoder.load(*model.snapshot);
  const types::SampleRequest requests[] = {{7, kPrompts[0], 0, 2}};
  Failing failing;
  CHECK_THROWS_AS(decoder.converse(requests, params_of_turns(), {11, 2}, failing), std::runtime_error);
  ScriptedPartner partner(5, 0);
  check_same(decoder.converse(requests_of_turns(), params_of_turns(), {11, 2}, partner), turn_by_turn(model));
}

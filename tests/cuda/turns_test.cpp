// Tests samples that go on after a partner's replies, on a device: with graphs, ticks launched ahead and parked pages.
#include "types/turns.h"

#include "decoder/scripted_partner.h"
#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;
using decoder::test::ScriptedPartner;

struct Played {
  std::vector<types::Completion> completions;
  std::int64_t graph_ticks = 0;
};

Played play_on_device(const model::Snapshot& snapshot, std::int64_t kv_pages, int delay, bool enforce_eager) {
  DecoderOptions options = options_of(KvFormat::int8, kv_pages);
  options.enforce_eager = enforce_eager;
  auto made = make_engine(snapshot.config(), options);
  const cuda::DecodeEngine& engine = *made;
  decoder::Decoder sampler(snapshot.config(), options,
                           decoder::make_device_backend(snapshot.config(), options, std::move(made)));
  sampler.load(snapshot);
  types::SamplingParams params = sampling();
  params.max_new_tokens = decoder::test::kAllTokens;
  params.stop_tokens = {3, 9, 12, 20, 31, 40};
  const std::vector<types::TokenId> prompts[] = {random_tokens(9, 1), random_tokens(5, 2)};
  const types::SampleRequest requests[] = {{7, prompts[0], 0, 3}, {8, prompts[1], 4, 2}};
  ScriptedPartner partner(5, delay);
  Played played{sampler.converse(requests, params, {11, 2}, partner), 0};
  played.graph_ticks = engine.stats().graph_ticks;
  return played;
}

}  // namespace

TEST_CASE("turns on a device: late replies, parked pages and graphs change no token") {
  if (!find_device()) return;
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 1;
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  const Played want = play_on_device(*snapshot, 300, 0, true);
  std::int64_t num_masked = 0;
  for (const types::Completion& one : want.completions) num_masked += std::ssize(one.tokens) - one.num_sampled();
  CHECK(num_masked > 5);
  for (const std::int64_t kv_pages : {300, 20}) {
    for (const int delay : {0, 2}) {
      for (const bool eager : {true, false}) {
        INFO(kv_pages << " pages, delay " << delay << ", eager " << eager);
        const Played got = play_on_device(*snapshot, kv_pages, delay, eager);
        CHECK((got.graph_ticks > 0) == !eager);
        REQUIRE(got.completions.size() == want.completions.size());
        for (std::size_t i = 0; i < want.completions.size(); ++i) {
          CHECK(got.completions[i].tokens == want.completions[i].tokens);
          CHECK(got.completions[i].sampled == want.completions[i].sampled);
          CHECK(got.completions[i].sampler_logprobs == want.completions[i].sampler_logprobs);
        }
      }
    }
  }
}

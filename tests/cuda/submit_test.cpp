// Tests that requests with their own parameters share the ticks of a GPU's decoder.
#include <algorithm>
#include <iterator>
#include <map>

#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;
using decoder::Decoder;
using decoder::FinishedRequest;
using decoder::Request;
using decoder::RequestId;

Request request_of(std::uint64_t prompt_id, int prompt_tokens, types::SamplingParams params) {
  Request request;
  request.prompt_id = prompt_id;
  request.prompt_tokens = random_tokens(prompt_tokens, prompt_id);
  request.num_samples = 2;
  request.params = std::move(params);
  request.key = {7, static_cast<std::uint32_t>(prompt_id)};
  return request;
}

DecoderOptions submit_options() {
  DecoderOptions options = options_of(KvFormat::bf16);
  options.row_only_sums = true;
  return options;
}

/// Submits the requests in order, `ticks_between` ticks apart, and returns their completions.
std::map<RequestId, std::vector<types::Completion>> complete(const model::Snapshot& snapshot,
                                                             const std::vector<Request>& requests, int ticks_between,
                                                             const DecoderOptions& options = submit_options()) {
  const model::ModelConfig& config = snapshot.config();
  Decoder decoder(config, options, decoder::make_device_backend(config, options, make_engine(config, options)));
  decoder.load(snapshot);
  std::vector<FinishedRequest> finished;
  const auto take = [&] { std::ranges::move(decoder.take_finished(), std::back_inserter(finished)); };
  for (const Request& request : requests) {
    decoder.submit(request);
    for (int tick = 0; tick < ticks_between; ++tick) decoder.tick();
    take();
  }
  while (decoder.tick()) take();
  take();
  std::map<RequestId, std::vector<types::Completion>> of_request;
  for (FinishedRequest& each : finished) of_request[each.id] = std::move(each.completions);
  REQUIRE(of_request.size() == requests.size());
  return of_request;
}

}  // namespace

TEST_CASE("requests on a GPU: bits do not depend on other requests or on submission times") {
  if (!find_device()) return;
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 1;
  config.vocab_size = 300;
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  const std::vector<Request> requests{
      request_of(0, 5, {.temperature = 0.8F, .max_new_tokens = 12, .stop_tokens = {3}}),
      request_of(1, 9, {.temperature = 0, .max_new_tokens = 6}),
      request_of(2, 2, {.temperature = 1.2F, .top_k = 5, .max_new_tokens = 5, .max_kept = 4}),
      request_of(3, 4, {.temperature = 1.5F, .max_new_tokens = 9}),
      // From here on: top-p alone, whose kept tokens may be more than the device finds, so that the CPU samples.
      request_of(4, 3, {.temperature = 1.1F, .top_p = 0.9F, .max_new_tokens = 7}),
  };
  std::vector<std::vector<types::Completion>> want;
  for (const Request& request : requests) want.push_back(complete(*snapshot, {request}, 0).at(0));
  for (const int ticks_between : {0, 2, 5}) {
    CAPTURE(ticks_between);
    const auto got = complete(*snapshot, requests, ticks_between);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      const std::vector<types::Completion>& completions = got.at(static_cast<RequestId>(i));
      REQUIRE(completions.size() == want[i].size());
      for (std::size_t s = 0; s < completions.size(); ++s) {
        CHECK(completions[s].tokens == want[i][s].tokens);
        CHECK(completions[s].sampler_logprobs == want[i][s].sampler_logprobs);
        REQUIRE(completions[s].kept.size() == (i == 2 ? completions[s].tokens.size() : 0));
        CHECK(completions[s].num_limited == std::ssize(completions[s].kept));
        for (std::size_t t = 0; t < completions[s].kept.size(); ++t) {
          CHECK(completions[s].kept[t].size() == 4);
          CHECK(std::ranges::binary_search(completions[s].kept[t], completions[s].tokens[t]));
        }
      }
    }
  }
}

TEST_CASE("requests on a GPU: of more than 512 rows a tick, each is cut by its own request, as by the CPU") {
  if (!find_device()) return;
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 1;
  config.vocab_size = 300;
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  DecoderOptions options = submit_options();
  options.max_num_seqs = options.max_num_batched_tokens = 530;
  options.kv_pages = 1200;
  std::vector<Request> requests{
      request_of(0, 3, {.top_p = 0.7F, .max_new_tokens = 2, .max_kept = 256}),
      request_of(1, 2, {.temperature = 1.5F, .top_p = 0.3F, .max_new_tokens = 2, .max_kept = 256})};
  requests[0].num_samples = 500;
  requests[1].num_samples = 30;
  const auto got = complete(*snapshot, requests, 0, options);
  // The device can keep 256 tokens. With one more the CPU samples from whole rows of the same logits.
  for (Request& request : requests) request.params.max_kept = 257;
  const auto want = complete(*snapshot, requests, 0, options);
  for (const auto& [id, completions] : want) {
    REQUIRE(got.at(id).size() == completions.size());
    std::size_t num_same = 0;
    for (std::size_t s = 0; s < completions.size(); ++s) {
      const types::Completion& sampled = got.at(id)[s];
      REQUIRE(completions[s].kept.size() == 2);
      num_same += sampled.tokens == completions[s].tokens && sampled.kept == completions[s].kept ? 1 : 0;
    }
    CAPTURE(id);
    CHECK(num_same == completions.size());
  }
}

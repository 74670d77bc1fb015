// Tests the routes of cached positions: pages that keep them, and completions that have them.
#include <array>

#include "base/error.h"
#include "decoder/fixtures.h"
#include "decoder/kv/kv_cache.h"
#include "support/catch.h"

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;

namespace {

/// Returns experts of a position's layer that name both.
std::array<std::uint8_t, 2> experts_of(std::int64_t position, std::int64_t layer) {
  return {static_cast<std::uint8_t>(10 * layer + position), static_cast<std::uint8_t>(100 + 10 * layer + position)};
}

void store_position(const RoutePages& pages, const std::vector<PageId>& table, std::int64_t position) {
  for (const std::int64_t layer : {std::int64_t{0}, std::int64_t{2}})
    pages.store(table.data(), position, layer, experts_of(position, layer).data());
}

}  // namespace

TEST_CASE("route pages: stored by position, read in order, copied up to a slot") {
  RoutePages pages(tiny_config(model::Family::qwen3_moe), 6, 4);
  CHECK(pages.num_bytes() == 0);
  pages.allocate();
  CHECK(pages.num_bytes() == 6 * 4 * 2 * 2);
  const std::vector<PageId> table = {4, 1, 3};
  for (std::int64_t position = 9; position >= 0; --position) store_position(pages, table, position);
  const types::Routes routes = pages.read(table, 10);
  CHECK(routes.num_layers == 2);
  CHECK(routes.per_token == 2);
  REQUIRE(routes.num_tokens() == 10);
  for (std::int64_t position = 0; position < 10; ++position) {
    const auto first = experts_of(position, 0), second = experts_of(position, 2);
    const std::vector<std::uint8_t> want = {first[0], first[1], second[0], second[1]};
    CHECK(std::ranges::equal(routes.of_token(static_cast<std::size_t>(position)), want));
  }
  pages.copy({.from = 1, .to = 5, .num_slots = 3});
  const std::vector<PageId> copied = {4, 5};
  CHECK(std::ranges::equal(pages.read(copied, 7).experts, std::span(routes.experts).first(7 * 4)));
  CHECK_FALSE(std::ranges::equal(pages.read(copied, 8).experts, std::span(routes.experts).first(8 * 4)));
  CHECK_THROWS_AS(pages.read(table, 13), base::Error);
  pages.release();
  CHECK(pages.num_bytes() == 0);
  CHECK(pages.read(table, 10).empty());
}

TEST_CASE("route pages: a dense model has none, and its completions have no routes") {
  RoutePages pages(tiny_config(), 6, 4);
  pages.allocate();
  CHECK(pages.num_bytes() == 0);
  pages.copy({.from = 1, .to = 5, .num_slots = 3});
  const auto snapshot = publish(tiny_config(), tiny_weights(tiny_config()), quant::Format::int8);
  Decoder decoder(tiny_config(), {.page_size = 4, .kv_pages = 40, .max_model_len = 80});
  decoder.load(*snapshot);
  const types::SampleRequest request{1, kPrompts[0], 0, 2};
  CHECK(decoder.complete({&request, 1}, {.max_new_tokens = 3, .wants_routes = true}, {})[1].routes.empty());
}

TEST_CASE("routes: a completion has those of all its tokens except the last, also with a prefix of another prompt") {
  const model::ModelConfig config = tiny_config(model::Family::qwen3_moe);
  const auto snapshot = publish(config, tiny_weights(config), quant::Format::int8);
  const auto complete = [&](const std::vector<types::TokenId>& prompt, std::int32_t new_tokens, bool wanted) {
    Decoder decoder(config, {.page_size = 4, .kv_pages = 100, .max_model_len = 80});
    decoder.load(*snapshot);
    const types::SampleRequest request{1, prompt, 0, 3};
    return decoder.complete({&request, 1}, {.temperature = 1, .max_new_tokens = new_tokens, .wants_routes = wanted},
                            {});
  };
  CHECK(complete(kPrompts[0], 5, false)[0].routes.empty());
  const auto samples = complete(kPrompts[0], 9, true);
  for (const types::Completion& sample : samples) {
    REQUIRE(sample.tokens.size() == 9);
    REQUIRE(sample.routes.num_tokens() == 18 + 9 - 1);
    for (std::size_t i = 0; i < sample.routes.experts.size(); i += 2)
      CHECK(sample.routes.experts[i] < sample.routes.experts[i + 1]);
    // Forced through the model as a prompt, the sample has the routes that it had while it was drawn.
    std::vector<types::TokenId> whole = kPrompts[0];
    whole.insert(whole.end(), sample.tokens.begin(), sample.tokens.end() - 1);
    CHECK(complete(whole, 1, true)[0].routes == sample.routes);
  }
  CHECK(samples[0].tokens != samples[1].tokens);
  CHECK(std::ranges::equal(std::span(samples[0].routes.experts).first(18 * 4),
                           std::span(samples[1].routes.experts).first(18 * 4)));
  CHECK(samples[0].routes != samples[1].routes);
}

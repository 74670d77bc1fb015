// Tests the metrics of a mixture's routes against counts made by hand.
#include "learner/objective/route_statistics.h"

#include "learner/ranks.h"
#include "learner/support.h"

using namespace qrl;

namespace {

/// 4 experts, 2 a token, in layers 0 and 2 of 3.
model::ModelConfig config_of_routes() {
  model::ModelConfig config = test::tiny_moe_config();
  config.num_experts = 4;
  return config;
}

/// A prefix of 3 rows, and a sequence of 3 that continues it, whose last row the sampler never computed.
types::MicroBatch batch_of_routes() {
  types::MicroBatch batch;
  batch.tokens.assign(6, 1);
  batch.sequence_starts = {0, 3, 6};
  batch.continues_prefix = {0, 1};
  batch.sampler_routes = {2, 2, {}};
  for (int pair = 0; pair < 12; ++pair) batch.sampler_routes.experts.insert(batch.sampler_routes.experts.end(), {0, 1});
  return batch;
}

/// Sets the experts of a row's first or second sparse layer.
void set_route(std::vector<std::uint8_t>& routes, std::size_t row, std::size_t layer, std::uint8_t low,
               std::uint8_t high) {
  routes[(2 * row + layer) * 2] = low;
  routes[(2 * row + layer) * 2 + 1] = high;
}

}  // namespace

TEST_CASE("route metrics: shares of differing routes by layer, token and choice, and the largest load") {
  const types::MicroBatch batch = batch_of_routes();
  std::vector<std::uint8_t> used = batch.sampler_routes.experts;
  set_route(used, 1, 0, 0, 2);
  set_route(used, 1, 1, 1, 3);
  set_route(used, 4, 1, 0, 3);
  set_route(used, 5, 0, 2, 3);  // a last row
  std::vector<std::uint8_t> own = used;
  set_route(own, 0, 0, 2, 3);
  learner::RouteStatistics statistics(config_of_routes());
  statistics.add(batch, {used, own});
  const auto world = dist::make_solo();
  const auto metrics = statistics.reduce(*world);
  CHECK(metrics.size() == learner::route_metric_names(config_of_routes()).size());
  CHECK(metrics.at("moe/route_flip_fraction/layer_0") == 1.0 / 5);
  CHECK(metrics.at("moe/route_flip_fraction/layer_2") == 2.0 / 5);
  CHECK(metrics.at("moe/route_flip_fraction") == 3.0 / 10);
  CHECK(metrics.at("moe/token_flip_fraction") == 2.0 / 5);
  CHECK(metrics.at("moe/own_route_flip_fraction") == 4.0 / 10);
  CHECK(metrics.at("moe/expert_load_max") == 5.0 / 5 * 4 / 2);  // expert 0 of layer 0
  CHECK(statistics.reduce(*world).empty());                     // the mini-batch is forgotten
}

TEST_CASE("route metrics: without sampler routes only a load, and none for a dense model") {
  types::MicroBatch batch = batch_of_routes();
  const std::vector<std::uint8_t> used = batch.sampler_routes.experts;
  batch.sampler_routes = {};
  learner::RouteStatistics statistics(config_of_routes());
  statistics.add(batch, {used, used});
  const auto world = dist::make_solo();
  const auto metrics = statistics.reduce(*world);
  CHECK(metrics.size() == 1);
  CHECK(metrics.at("moe/expert_load_max") == 2);
  CHECK(learner::RouteStatistics(test::tiny_config()).reduce(*world).empty());
  CHECK(learner::route_metric_names(test::tiny_config()).empty());
}

TEST_CASE("route metrics: two ranks give the same, also when one has no micro-batch") {
  types::MicroBatch batch = batch_of_routes();
  std::vector<std::uint8_t> used = batch.sampler_routes.experts;
  set_route(used, 2, 1, 1, 2);
  learner::RouteStatistics alone(config_of_routes());
  alone.add(batch, {used, used});
  const auto want = alone.reduce(*dist::make_solo());
  std::map<std::string, double> got[2];
  test::Ranks(2).run([&](dist::Collectives& world) {
    learner::RouteStatistics statistics(config_of_routes());
    if (world.rank() == 1) statistics.add(batch, {used, used});
    got[world.rank()] = statistics.reduce(world);
  });
  CHECK(want.at("moe/route_flip_fraction/layer_2") == 1.0 / 5);
  CHECK(got[0] == want);
  CHECK(got[1] == want);
}

// Tests a learner that replays routes: those of the batch are used, and the router learns through its gates.
#include <cmath>

#include "base/error.h"
#include "learner/support.h"

using namespace qrl;

namespace {

types::MicroBatch batch_of_rows() {
  return test::pack_shared({test::random_sequence(1, 9, 12, 37), test::random_sequence(1, 9, 17, 37)});
}

/// Returns routes of experts that depend on row and layer alone, not on the model.
types::Routes foreign_routes(std::int64_t num_tokens) {
  types::Routes routes{2, 2, {}};
  for (std::int64_t token = 0; token < num_tokens; ++token) {
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const auto low = static_cast<std::uint8_t>((token + layer) % 4);
      routes.experts.push_back(low);
      routes.experts.push_back(static_cast<std::uint8_t>(low + 1 + (token * layer) % (4 - low)));
    }
  }
  return routes;
}

double mean_loss(learner::Learner& learner, const types::MicroBatch& batch) {
  const std::vector<float> logprobs = learner.score(batch, {1.0F}).logprobs;
  double sum = 0;
  for (std::size_t t = 0; t < logprobs.size(); ++t) sum -= batch.loss_mask[t] != 0 ? logprobs[t] : 0;
  return sum / static_cast<double>(test::count({batch}).response_tokens);
}

test::Named replayed_gradients(learner::Learner& learner, const types::MicroBatch& batch) {
  learner.accumulate(batch, test::count({batch}), {learner::LossKind::sft, {}, {}}, {});
  return test::gradients_of(learner);
}

constexpr const char* kRouter = "model.layers.2.mlp.gate.weight";

}  // namespace

TEST_CASE("route replay: other routes change log-probs, the pass's own routes change no bit") {
  const auto world = dist::make_solo();
  for (const bool checkpoints : {false, true}) {
    const model::ModelConfig config = test::tiny_moe_config();
    learner::LearnerOptions options = test::options(learner::ComputeDType::f32);
    options.activation_checkpointing = checkpoints;
    learner::Learner learner(config, test::tiny_weights(config), options, *world);
    types::MicroBatch batch = batch_of_rows();
    const learner::TokenScores free = learner.score(batch, {1.0F});
    REQUIRE(free.routes.num_tokens() == batch.num_tokens());
    const test::Named free_gradients = replayed_gradients(learner, batch);

    batch.sampler_routes = free.routes;
    batch.replay = types::RouteReplay::sampler;
    CHECK(learner.score(batch, {1.0F}).logprobs == free.logprobs);
    learner::Learner again(config, test::tiny_weights(config), options, *world);
    CHECK(replayed_gradients(again, batch) == free_gradients);

    batch.old_routes = foreign_routes(batch.num_tokens());
    batch.replay = types::RouteReplay::old;
    const learner::TokenScores foreign = learner.score(batch, {1.0F});
    CHECK(foreign.routes == batch.old_routes);
    CHECK(foreign.logprobs != free.logprobs);
  }
}

TEST_CASE("route replay: the router's gradient equals differences of the loss at the given routes") {
  const auto world = dist::make_solo();
  for (const bool norm_topk : {true, false}) {
    const model::ModelConfig config = test::tiny_moe_config(norm_topk);
    model::Weights weights = test::tiny_weights(config);
    types::MicroBatch batch = batch_of_rows();
    batch.sampler_routes = foreign_routes(batch.num_tokens());
    batch.replay = types::RouteReplay::sampler;
    const learner::LearnerOptions options = test::options(learner::ComputeDType::f32);
    learner::Learner learner(config, weights, options, *world);
    const std::vector<float> gradient = replayed_gradients(learner, batch).at(kRouter);
    float* router = weights.at(kRouter).as<float>();
    double largest = 0;
    for (const float value : gradient) largest = std::max(largest, std::fabs(static_cast<double>(value)));
    CHECK(largest > 1e-3);
    constexpr float kStep = 0.05F;
    for (std::size_t i = 0; i < gradient.size(); i += 7) {
      CAPTURE(norm_topk, i);
      const float before = router[i];
      const auto loss_at = [&](float value) {
        router[i] = value;
        learner::Learner moved(config, weights, options, *world);
        return mean_loss(moved, batch);
      };
      const double slope = (loss_at(before + kStep) - loss_at(before - kStep)) / (2.0 * kStep);
      router[i] = before;
      CHECK(std::fabs(slope - static_cast<double>(gradient[i])) < 0.01 * largest);
    }
  }
}

TEST_CASE("route replay: routes of another model's shape are an internal error") {
  const auto world = dist::make_solo();
  const model::ModelConfig config = test::tiny_moe_config();
  learner::Learner learner(config, test::tiny_weights(config), test::options(learner::ComputeDType::f32), *world);
  types::MicroBatch batch = batch_of_rows();
  batch.replay = types::RouteReplay::sampler;
  batch.sampler_routes = foreign_routes(batch.num_tokens() - 1);
  CHECK_THROWS_AS(learner.score(batch, {1.0F}), base::Error);
  batch.sampler_routes = foreign_routes(batch.num_tokens());
  CHECK(learner.score(batch, {1.0F}).routes == batch.sampler_routes);
  batch.sampler_routes.num_layers = 4;
  batch.sampler_routes.per_token = 1;
  CHECK_THROWS_AS(learner.score(batch, {1.0F}), base::Error);
}

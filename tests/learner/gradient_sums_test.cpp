// Tests sums over ranks that begin during the backward pass: they have the same bits as sums after it.
#include <mutex>

#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/torch_learner.h"
#include "model/snapshot.h"

namespace qrl {

using test::Learner;
using test::LearnerOptions;
using test::Named;

namespace {

struct SumsWay {
  std::string name;
  LearnerOptions options;
  bool has_experts = false;

  model::ModelConfig config() const { return has_experts ? test::tiny_moe_config() : test::tiny_config(); }
};

std::vector<SumsWay> sums_ways() {
  std::vector<SumsWay> all;
  const auto add = [&](const std::string& name) -> LearnerOptions& {
    all.push_back({name, test::options(learner::ComputeDType::bf16), name.starts_with("experts")});
    return all.back().options;
  };
  add("own operations");
  add("checkpointed").activation_checkpointing = true;
  add("LibTorch's operations").torch_ops = true;
  LearnerOptions& both = add("LibTorch's operations, checkpointed");
  both.torch_ops = true;
  both.activation_checkpointing = true;
  add("low_bit").numerics.forward = learner::LearnerForward::low_bit;
  add("muon").optim.name = learner::OptimName::muon;
  add("experts, low_bit").numerics.forward = learner::LearnerForward::low_bit;
  add("experts, muon").optim.name = learner::OptimName::muon;
  return all;
}

/// Gives rank r r + 1 micro-batches; the last one of the last rank has no tokens in the loss.
std::vector<std::vector<types::MicroBatch>> shares(int num_ranks) {
  std::vector<std::vector<types::MicroBatch>> all(static_cast<std::size_t>(num_ranks));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::uint64_t i = 0; i <= rank; ++i)
      all[rank].push_back(test::pack({test::random_sequence(10 * rank + i, 3, 5, 37)}));
  }
  std::fill(all.back().back().loss_mask.begin(), all.back().back().loss_mask.end(), 0);
  return all;
}

/// Holds every rank's results after two updates.
struct SumsOutcome {
  std::vector<Named> masters;
  std::vector<double> norms;
};

/// Trains; early(rank) says whether that rank announces its last micro-batch.
template <class Early>
SumsOutcome train_way(const SumsWay& way, bool sharded, int num_ranks, const Early& early) {
  const model::ModelConfig config = way.config();
  const std::vector<std::vector<types::MicroBatch>> batches = shares(num_ranks);
  std::vector<types::MicroBatch> all;
  for (const auto& share : batches) all.insert(all.end(), share.begin(), share.end());
  const types::GlobalCounts counts = test::count(all);
  LearnerOptions options = way.options;
  options.shard_optimizer = sharded;
  SumsOutcome outcome;
  outcome.masters.resize(batches.size());
  outcome.norms.resize(batches.size());
  test::Ranks(num_ranks).run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Learner learner(config, test::tiny_weights(config), options, world);
    model::Snapshot snapshot(config, quant::Format::int8);
    for (int step = 0; step < 2; ++step) {
      learner.publish(snapshot, step);
      for (const types::MicroBatch& batch : batches[rank]) {
        const bool is_last = early(world.rank()) && &batch == &batches[rank].back();
        learner.accumulate(batch, counts, test::policy_options(), {1.0F}, is_last);
      }
      outcome.norms[rank] = learner.update().metrics.at("actor/grad_norm");
    }
    outcome.masters[rank] = test::masters_of(learner);
  });
  return outcome;
}

}  // namespace

TEST_CASE("rank sums: overlapped with the backward pass, bits equal those computed after it") {
  for (const SumsWay& way : sums_ways()) {
    for (const bool sharded : {false, true}) {
      CAPTURE(way.name, sharded);
      const SumsOutcome after = train_way(way, sharded, 3, [](int) { return false; });
      for (const auto& early : {+[](int) { return true; }, +[](int rank) { return rank == 1; }}) {
        const SumsOutcome during = train_way(way, sharded, 3, early);
        CHECK(during.masters == after.masters);
        CHECK(during.norms == after.norms);
      }
    }
  }
}

TEST_CASE("activation checkpointing: no bit of training changes on any rank") {
  for (SumsWay way : sums_ways()) {
    CAPTURE(way.name);
    const auto early = [](int) { return true; };
    way.options.activation_checkpointing = false;
    const SumsOutcome kept = train_way(way, false, 2, early);
    way.options.activation_checkpointing = true;
    const SumsOutcome again = train_way(way, false, 2, early);
    CHECK(again.masters == kept.masters);
    CHECK(again.norms == kept.norms);
  }
}

TEST_CASE("rank sums: a layer is summed after the last backward pass, all others at the update") {
  for (const SumsWay& way : sums_ways()) {
    CAPTURE(way.name);
    const auto of_two = [&](bool is_last) {
      const model::ModelConfig config = way.config();
      const std::vector<types::MicroBatch> batches = {test::pack({test::random_sequence(1, 3, 5, 37)}),
                                                      test::pack({test::random_sequence(2, 3, 5, 37)})};
      std::vector<Named> gradients(2);
      test::Ranks(2).run([&](dist::Collectives& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        Learner learner(config, test::tiny_weights(config), way.options, world);
        model::Snapshot snapshot(config, quant::Format::int8);
        learner.publish(snapshot, 0);
        learner.accumulate(batches[rank], test::count(batches), test::policy_options(), {1.0F}, is_last);
        gradients[rank] = test::gradients_of(learner);
        learner.update();
      });
      return gradients;
    };
    const std::vector<Named> during = of_two(true), after = of_two(false);
    for (const auto& [name, mine] : during[0]) {
      CAPTURE(name);
      const bool of_a_layer = name.starts_with("model.layers.") && mine.size() > 64;  // its gains are shorter
      CHECK((mine == during[1].at(name)) == of_a_layer);
      CHECK(after[0].at(name) != after[1].at(name));
      if (!of_a_layer) CHECK(mine == after[0].at(name));
    }
  }
}

TEST_CASE("learner: accumulating between the last micro-batch and its update is an error") {
  const model::ModelConfig config = test::tiny_config();
  const types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 5, 37)});
  static std::mutex assertions;  // Catch2's assertions are not thread-safe
  test::Ranks(2).run([&](dist::Collectives& world) {
    Learner learner(config, test::tiny_weights(config), test::options(), world);
    const auto accumulate = [&](bool is_last) {
      learner.accumulate(batch, test::count({batch, batch}), test::policy_options(), {1.0F}, is_last);
    };
    accumulate(false);
    accumulate(true);
    {
      const std::lock_guard lock(assertions);
      CHECK_THROWS_WITH(accumulate(false), Catch::Contains("an update after the last micro-batch"));
    }
    learner.update();
    accumulate(true);
    learner.update();
  });
}

}  // namespace qrl

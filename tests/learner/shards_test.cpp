// Tests masters and moments divided over ranks: the same bits as on ranks that each hold all of them.
#include <algorithm>
#include <cmath>

#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/weights/parameter_layout.h"
#include "model/snapshot.h"

namespace qrl {

using test::Named;

namespace {

struct ShardWay {
  std::string name;
  learner::LearnerOptions options;
  bool tied = true;
  bool qkv_bias = false;  ///< and on o, without norms of q and k
  bool has_experts = false;
};

std::vector<ShardWay> shard_ways() {
  using learner::ComputeDType;
  using learner::LearnerForward;
  std::vector<ShardWay> all;
  const auto add = [&](const std::string& name, ComputeDType compute) -> ShardWay& {
    ShardWay& way = all.emplace_back();
    way.name = name;
    way.options = test::options(compute);
    way.options.optim.weight_decay = 0.1;
    return way;
  };
  add("float32", ComputeDType::f32);
  add("bf16", ComputeDType::bf16);
  add("bf16, untied", ComputeDType::bf16).tied = false;
  add("bf16, biases", ComputeDType::bf16).qkv_bias = true;
  add("bf16, lm_head in fp32", ComputeDType::bf16).options.numerics.f32_lm_head = true;
  add("muon", ComputeDType::bf16).options.optim.name = learner::OptimName::muon;
  add("fake_quant", ComputeDType::bf16).options.numerics.forward = LearnerForward::fake_quant;
  add("low_bit", ComputeDType::bf16).options.numerics.forward = LearnerForward::low_bit;
  ShardWay& bitwise = add("bitwise, untied", ComputeDType::bf16);
  bitwise.options.numerics.forward = LearnerForward::low_bit;
  bitwise.options.numerics.bitwise = true;
  bitwise.tied = false;
  add("experts, fake_quant", ComputeDType::bf16).has_experts = true;
  all.back().options.numerics.forward = LearnerForward::fake_quant;
  add("experts, muon", ComputeDType::bf16).has_experts = true;
  all.back().options.optim.name = learner::OptimName::muon;
  return all;
}

/// Holds one rank's results.
struct ShardSeen {
  Named masters, moments;                   ///< this rank's masters and moments after all updates
  Named all_masters;                        ///< through the source
  std::vector<learner::Metrics> metrics;    ///< of every update
  std::vector<float> scores;                ///< log-probs after all updates
  std::vector<std::vector<float>> decoded;  ///< dequantized values of two matrices of a snapshot
};

std::vector<test::Sequence> shard_sequences() {
  std::vector<test::Sequence> sequences;
  for (std::uint64_t i = 0; i < 7; ++i)
    sequences.push_back(test::random_sequence(i, 3, 4 + static_cast<std::int64_t>(i), 37));
  return sequences;
}

void accumulate(learner::Learner& learner, const dist::Collectives& world) {
  const std::vector<test::Sequence> s = shard_sequences();
  const types::GlobalCounts counts = test::count({test::pack(s)});
  for (auto i = static_cast<std::size_t>(world.rank()); i < s.size(); i += static_cast<std::size_t>(world.size()))
    learner.accumulate(test::pack({s[i]}), counts, test::policy_options(), {1.0F});
}

std::vector<float> decoded(const ops::PackedLinear& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.out * packed.in));
  ops::unpack_rows(packed, 0, packed.out, values.data());
  return values;
}

Named read_all(const learner::Learner& learner, const model::ModelConfig& config) {
  Named all;
  for (const auto& [name, buffer] : model::read_weights(config, learner.state().all_masters()))
    all[name] = test::copy(buffer.view());
  return all;
}

/// Returns each rank's results of `body(learner, snapshot, world, seen)`.
template <class Body>
std::vector<ShardSeen> on_ranks(int num_ranks, const ShardWay& way, bool sharded, const Body& body) {
  model::ModelConfig config = test::tiny_config(!way.qkv_bias, way.qkv_bias, way.tied);
  if (way.has_experts) config = test::tiny_moe_config();
  config.o_bias = way.qkv_bias;
  learner::LearnerOptions options = way.options;
  options.shard_optimizer = sharded;
  std::vector<ShardSeen> seen(static_cast<std::size_t>(num_ranks));
  test::Ranks(num_ranks).run([&](dist::Collectives& world) {
    learner::Learner learner(config, test::tiny_weights(config), options, world);
    model::Snapshot snapshot(config, quant::Format::int8);
    ShardSeen& mine = seen[static_cast<std::size_t>(world.rank())];
    body(learner, snapshot, world, mine);
    learner.publish(snapshot, 99);
    mine.decoded = {decoded(snapshot.layer(1).qkv), decoded(snapshot.lm_head())};
    mine.scores = learner.score(test::pack(shard_sequences()), {1.0F}).logprobs;
    mine.masters = test::masters_of(learner);
    mine.moments = test::moments_of(learner);
    mine.all_masters = read_all(learner, config);
  });
  return seen;
}

void train_rank(learner::Learner& learner, model::Snapshot& snapshot, dist::Collectives& world, ShardSeen& seen,
                int first, int last) {
  for (int step = first; step < last; ++step) {
    learner.publish(snapshot, step);
    accumulate(learner, world);
    seen.metrics.push_back(learner.update().metrics);
  }
}

std::vector<ShardSeen> trained(int num_ranks, const ShardWay& way, bool sharded) {
  return on_ranks(num_ranks, way, sharded,
                  [](learner::Learner& learner, model::Snapshot& snapshot, dist::Collectives& world, ShardSeen& seen) {
                    train_rank(learner, snapshot, world, seen, 0, 3);
                  });
}

/// Returns the tensors of all ranks; each name belongs to one rank only.
Named together(const std::vector<ShardSeen>& seen, Named ShardSeen::*part) {
  Named all;
  for (const ShardSeen& rank : seen) {
    for (const auto& [name, values] : rank.*part) {
      INFO(name);
      CHECK(all.emplace(name, values).second);
    }
  }
  return all;
}

void check_same(const std::vector<ShardSeen>& sharded, const std::vector<ShardSeen>& plain) {
  // In brackets, so that a failure does not print a thousand numbers.
  CHECK((together(sharded, &ShardSeen::masters) == plain[0].masters));
  CHECK((together(sharded, &ShardSeen::moments) == plain[0].moments));
  for (std::size_t rank = 0; rank < sharded.size(); ++rank) {
    CHECK((sharded[rank].all_masters == plain[0].masters));
    CHECK(sharded[rank].metrics == plain[rank].metrics);
    CHECK((sharded[rank].scores == plain[rank].scores));
    CHECK((sharded[rank].decoded == plain[rank].decoded));
  }
}

}  // namespace

TEST_CASE("sharded ranks: train with the bits of ranks that hold everything") {
  for (const ShardWay& way : shard_ways()) {
    for (const int num_ranks : {1, 2, 3}) {
      CAPTURE(way.name, num_ranks);
      check_same(trained(num_ranks, way, true), trained(num_ranks, way, false));
    }
  }
}

TEST_CASE("sharded ranks: with more ranks than tensors some hold nothing, and all train") {
  const int num_ranks = 30;
  const std::vector<ShardSeen> sharded = trained(num_ranks, shard_ways()[1], true);
  CHECK(std::ranges::any_of(sharded, [](const ShardSeen& rank) { return rank.masters.empty(); }));
  check_same(sharded, trained(num_ranks, shard_ways()[1], false));
}

TEST_CASE("sharded ranks: a non-finite tensor on one rank stops the update on all and is named") {
  for (const ShardSeen& rank :
       on_ranks(3, shard_ways()[1], true, [](learner::Learner&learner, auto&, dist::Collectives&world, ShardSeen&seen) {
         accumulate(learner, world);
         if (world.rank() == 1)
           learner.state().gradients().at("model.layers.1.mlp.up_proj.weight").as<float>()[5] = NAN;
         const learner::UpdateReport report = learner.update();
         seen.metrics.push_back({{report.non_finite, report.finite}});
         accumulate(learner, world);
         seen.metrics.push_back({{"goes on", learner.update().finite}});
       })) {
    CHECK(rank.metrics[0] == learner::Metrics{{"model.layers.1.mlp.up_proj.weight", 0}});
    CHECK(rank.metrics[1] == learner::Metrics{{"goes on", 1}});
  }
}

TEST_CASE("sharded ranks: state saved by one number of ranks resumes on another with equal bits") {
  for (const std::size_t idx : {std::size_t{1}, std::size_t{5}}) {
    const ShardWay way = shard_ways()[idx];
    CAPTURE(way.name);
    const std::vector<ShardSeen> before = trained(2, way, true);
    const Named masters = together(before, &ShardSeen::masters), moments = together(before, &ShardSeen::moments);
    const auto go_on = [&](bool sharded) {
      return on_ranks(
          3, way, sharded,
          [&](learner::Learner& learner, model::Snapshot& snapshot, dist::Collectives& world, ShardSeen& seen) {
            accumulate(learner, world);  // leftover gradients: restore must clear them
            test::restore(learner, masters, moments, 3);
            train_rank(learner, snapshot, world, seen, 3, 5);
          });
    };
    check_same(go_on(true), go_on(false));
  }
}

TEST_CASE("sharded ranks: update-aware scaling and a new optimizer reach every shard") {
  const auto scaled = [&](bool sharded) {
    return on_ranks(
        2, shard_ways()[1], sharded,
        [](learner::Learner& learner, model::Snapshot& snapshot, dist::Collectives& world, ShardSeen& seen) {
          train_rank(learner, snapshot, world, seen, 0, 1);
          learner.apply_uaq(1.5F);
          learner.reset_optimizer(test::adamw(), 0);
          train_rank(learner, snapshot, world, seen, 1, 2);
        });
  };
  check_same(scaled(true), scaled(false));
}

TEST_CASE("scoring learner: not sharded") {
  const model::ModelConfig config = test::tiny_config();
  learner::LearnerOptions options = test::options();
  options.trainable = false;
  options.shard_optimizer = true;
  bool sharded[2] = {true, true};
  test::Ranks(2).run([&](dist::Collectives& world) {
    sharded[world.rank()] = learner::Learner(config, test::tiny_weights(config), options, world).is_sharded();
  });
  CHECK_FALSE(sharded[0]);
  CHECK_FALSE(sharded[1]);
}

TEST_CASE("shards: hold whole tensors, and are of about equal size") {
  model::ModelConfig config = test::tiny_config();
  config.num_hidden_layers = 12;
  config.hidden_size = 64;
  config.intermediate_size = 192;
  const std::vector<model::WeightSpec> specs = model::weight_specs(config);
  for (const bool muon : {false, true}) {
    for (const int num_ranks : {1, 2, 3, 8}) {
      CAPTURE(muon, num_ranks);
      const std::vector<int> owners = learner::shard_owners(specs, muon, num_ranks);
      std::vector<double> floats(static_cast<std::size_t>(num_ranks));
      double all = 0;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        const bool one_moment = muon && specs[i].kind == model::WeightKind::linear;
        const double weight = (one_moment ? 2.0 : 3.0) * static_cast<double>(specs[i].shape.numel());
        floats.at(static_cast<std::size_t>(owners[i])) += weight;
        all += weight;
      }
      CHECK(*std::ranges::max_element(floats) <= 1.05 * all / num_ranks);
    }
  }
}

}  // namespace qrl

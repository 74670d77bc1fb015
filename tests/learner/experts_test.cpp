// Tests a learner of a mixture of experts: what must not change its gradients, its tensors in the layout, Muon, ranks.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/torch_learner.h"
#include "learner/update/muon.h"
#include "learner/weights/parameter_layout.h"
#include "model/snapshot.h"

using namespace qrl;
using learner::LearnerBackward;
using learner::LearnerForward;

namespace {

const char* const kGateUp = "model.layers.0.mlp.experts.gate_up_proj.weight";
const char* const kDown = "model.layers.0.mlp.experts.down_proj.weight";

struct MixtureWay {
  std::string name;
  learner::LearnerOptions options;
  quant::Format format = quant::Format::int8;
};

std::vector<MixtureWay> mixture_ways() {
  std::vector<MixtureWay> all;
  const auto add = [&](const std::string& name, LearnerForward forward) -> MixtureWay& {
    all.push_back({name, test::options(learner::ComputeDType::bf16)});
    all.back().options.numerics.forward = forward;
    return all.back();
  };
  add("float32", LearnerForward::bf16).options.numerics.compute = learner::ComputeDType::f32;
  add("bf16", LearnerForward::bf16);
  add("fake_quant", LearnerForward::fake_quant);
  add("low_bit", LearnerForward::low_bit);
  add("int8 backward", LearnerForward::low_bit).options.numerics.backward = LearnerBackward::int8;
  MixtureWay& fp8 = add("fp8 backward", LearnerForward::low_bit);
  fp8.options.numerics.backward = LearnerBackward::fp8_e4m3;
  fp8.format = quant::Format::fp8_block128;
  MixtureWay& bitwise = add("bitwise", LearnerForward::low_bit);
  bitwise.options.numerics.bitwise = true;
  return all;
}

std::vector<test::Sequence> mixture_sequences() {
  std::vector<test::Sequence> sequences;
  for (std::uint64_t i = 0; i < 4; ++i)
    sequences.push_back(test::random_sequence(i, 3, 5 + 3 * static_cast<std::int64_t>(i), 37));
  return sequences;
}

/// Holds a learner of a mixture with the micro-batches of one mini-batch.
struct MixtureRun {
  MixtureRun(const MixtureWay& way, const model::ModelConfig& config, const model::Weights& weights)
      : learner(config, weights, way.options, *world), snapshot(config, way.format) {
    learner.publish(snapshot, 0);
  }
  MixtureRun(const MixtureWay& way, const model::ModelConfig& config)
      : MixtureRun(way, config, test::tiny_weights(config)) {}
  test::Named gradients(const std::vector<types::MicroBatch>& batches) {
    for (const types::MicroBatch& batch : batches)
      learner.accumulate(batch, test::count(batches), test::policy_options(), {1.0F});
    return test::gradients_of(learner);
  }
  std::unique_ptr<dist::Collectives> world = dist::make_solo();
  learner::Learner learner;
  model::Snapshot snapshot;
};

double mixture_difference(const test::Named& a, const test::Named& b) {
  std::string worst;
  const double most = test::relative_difference(a, b, worst);
  UNSCOPED_INFO("largest difference in " << worst);
  return most;
}

/// Returns an expert's part of a tensor of all experts.
std::vector<float> of_expert(const std::vector<float>& all, std::size_t count, std::size_t expert) {
  const auto size = static_cast<std::ptrdiff_t>(all.size() / count), at = static_cast<std::ptrdiff_t>(expert) * size;
  return {all.begin() + at, all.begin() + at + size};
}
float largest_of_part(const std::vector<float>& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

/// Counts broadcasts, and sends nothing.
class CountedRanks final : public learner::RankTensors {
 public:
  CountedRanks(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void begin_sum(const torch::Tensor& /*f32_values*/, std::span<const dist::Part> /*parts*/) override {}
  void end_sums() override {}
  bool sums_during_backward() const override { return false; }
  void begin_copies(const torch::Tensor& /*values*/, std::span<const dist::Part> /*byte_parts*/) override {}
  void end_copies() override {}
  bool copies_beside_work() const override { return false; }
  void broadcast(const torch::Tensor& /*values*/, int /*root*/) override { ++broadcasts; }
  int broadcasts = 0;

 private:
  int rank_, size_;
};

}  // namespace

TEST_CASE("MoE learner: recomputing a layer changes no bit of a gradient") {
  for (const bool norm_topk : {true, false}) {
    for (MixtureWay way : mixture_ways()) {
      CAPTURE(norm_topk, way.name);
      const model::ModelConfig config = test::tiny_moe_config(norm_topk);
      const std::vector<types::MicroBatch> batches = {test::pack(mixture_sequences()), test::random_group(1, 3, 4, 37)};
      const test::Named kept = MixtureRun(way, config).gradients(batches);
      way.options.activation_checkpointing = true;
      CHECK((MixtureRun(way, config).gradients(batches) == kept));
      CHECK(largest_of_part(kept.at("model.layers.2.mlp.gate.weight")) > 0);
    }
  }
}

TEST_CASE("MoE learner: packed gradients sum separate ones, and a shared prompt counts once per sample") {
  for (const bool norm_topk : {true, false}) {
    const model::ModelConfig config = test::tiny_moe_config(norm_topk);
    const MixtureWay way = mixture_ways().front();
    const std::vector<test::Sequence> sequences = mixture_sequences();
    const test::Named together = MixtureRun(way, config).gradients({test::pack(sequences)});
    std::vector<types::MicroBatch> separate;
    for (const test::Sequence& sequence : sequences) separate.push_back(test::pack({sequence}));
    CHECK(mixture_difference(MixtureRun(way, config).gradients(separate), together) <= 1e-5);
    std::swap(separate.front(), separate.back());
    CHECK(mixture_difference(MixtureRun(way, config).gradients(separate), together) <= 1e-5);
    separate.pop_back();
    CHECK(mixture_difference(MixtureRun(way, config).gradients(separate), together) > 1e-2);

    std::vector<test::Sequence> group;
    for (std::uint64_t i = 0; i < 3; ++i) {
      group.push_back(test::random_sequence(i, 9, 4 + static_cast<std::int64_t>(i), 37));
      std::copy_n(group[0].tokens.begin(), 9, group[i].tokens.begin());
    }
    CHECK(mixture_difference(MixtureRun(way, config).gradients({test::pack_shared(group)}),
                             MixtureRun(way, config).gradients({test::pack(group)})) <= 1e-5);
  }
}

TEST_CASE("MoE learner: gradients and updates have equal bits for any number of threads") {
  for (MixtureWay way : mixture_ways()) {
    CAPTURE(way.name);
    const auto trained = [&](int num_threads) {
      way.options.num_threads = num_threads;
      const model::ModelConfig config = test::tiny_moe_config();
      MixtureRun run(way, config);
      const test::Named gradients = run.gradients({test::random_group(1, 6, 20, 37)});
      run.learner.update();
      return std::pair{gradients, test::masters_of(run.learner)};
    };
    CHECK((trained(1) == trained(3)));
  }
}

TEST_CASE("MoE learner: an expert without tokens has gradient 0, in every mode") {
  for (const MixtureWay& way : mixture_ways()) {
    CAPTURE(way.name);
    const model::ModelConfig config = test::tiny_moe_config();
    model::Weights weights = test::tiny_weights(config);
    // Logits of layer 0 are (v, v, −v, 0, −v) for any input: expert 3 is never among the largest two.
    auto* router = weights.at("model.layers.0.mlp.gate.weight").as<float>();
    for (std::int64_t i = 0; i < config.hidden_size; ++i) {
      const float v = router[config.hidden_size + i];
      for (const auto& [expert, value] : {std::pair{0, v}, {2, -v}, {3, 0.0F}, {4, -v}})
        router[expert * config.hidden_size + i] = value;
    }
    const test::Named gradients =
        MixtureRun(way, config, weights).gradients({test::pack(mixture_sequences()), test::random_group(1, 3, 4, 37)});
    for (const std::size_t expert : {0, 1, 2, 3, 4}) {
      CAPTURE(expert);
      CHECK((largest_of_part(of_expert(gradients.at(kGateUp), 5, expert)) == 0) == (expert == 3));
      CHECK((largest_of_part(of_expert(gradients.at(kDown), 5, expert)) == 0) == (expert == 3));
      CHECK(largest_of_part(of_expert(gradients.at("model.layers.2.mlp.experts.down_proj.weight"), 5, expert)) > 0);
    }
  }
}

TEST_CASE("MoE learner: the number of experts changes neither tensors, update segments nor rank exchanges") {
  for (const bool muon : {false, true}) {
    std::vector<std::vector<std::size_t>> counts;
    for (const std::int64_t count : {2, 16}) {
      model::ModelConfig config = test::tiny_moe_config();
      config.num_experts = count;
      learner::LayoutOptions how;
      how.muon = muon;
      const learner::ParameterLayout layout(config, how);
      how.shards = 2;
      const learner::ParameterLayout sharded(config, how);
      std::vector<std::size_t> seen = {layout.placements().size(), layout.adamw_segments(layout.all()).size(),
                                       sharded.parts(sharded.all()).size()};
      for (std::size_t layer = 0; layer < 3; ++layer) {
        const learner::GradientRange range = layout.layer(layer);
        std::int64_t total = 0;
        for (const learner::Placement& each : layout.placements())
          total += range.holds(each.offset) ? each.spec.shape.numel() : 0;
        CHECK(total == range.count);  // one range, so one sum over ranks
        seen.push_back(sharded.parts(sharded.layer(layer)).size());
      }
      counts.push_back(seen);
    }
    CHECK(counts[0] == counts[1]);
  }
  for (const std::int64_t count : {2, 16}) {
    std::vector<learner::MuonMatrix> matrices;
    for (std::size_t tensor = 0; tensor < 3; ++tensor) {
      for (std::int64_t expert = 0; expert < count; ++expert)
        matrices.push_back({torch::randn({7, 5}), torch::randn({7, 5}), torch::zeros({7, 5}), tensor});
    }
    CountedRanks ranks(0, 2);
    learner::muon_step(matrices, {.lr = 0.1}, ranks);
    CHECK(ranks.broadcasts == 3);
  }
}

TEST_CASE("MoE learner with Muon: each expert's gate, up and down is a matrix of its own") {
  MixtureWay way = mixture_ways().front();
  way.options.optim.name = learner::OptimName::muon;
  way.options.optim.grad_clip = 0;
  const model::ModelConfig config = test::tiny_moe_config();
  MixtureRun run(way, config);
  const test::Named before = test::masters_of(run.learner);
  const test::Named gradients = run.gradients({test::pack(mixture_sequences()), test::random_group(1, 6, 20, 37)});
  run.learner.update();
  const test::Named after = test::masters_of(run.learner), moments = test::moments_of(run.learner);
  const std::int64_t inner = config.moe_intermediate_size, width = config.hidden_size;
  for (const auto& [name, rows, cols, per_expert] :
       {std::tuple{std::string(kGateUp), inner, width, 2}, std::tuple{std::string(kDown), width, inner, 1},
        std::tuple{std::string("model.layers.0.mlp.gate.weight"), config.num_experts, width, 0}}) {
    CHECK_FALSE(moments.contains("exp_avg_sq." + name));
    const std::int64_t count = per_expert == 0 ? 1 : per_expert * config.num_experts;
    const auto matrices = [&](const test::Named& all) {
      return torch::tensor(all.at(name)).to(torch::kFloat64).view({count, rows, cols});
    };
    const torch::Tensor g = matrices(gradients), from = matrices(before), to = matrices(after);
    const double lr = way.options.optim.lr, scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
    for (std::int64_t i = 0; i < count; ++i) {
      CAPTURE(name, i);
      // With Nesterov and no momentum yet the update is orthogonal to (1 + 0.95)·g: U·f(S)·Vᵀ by the singular values.
      // A route's logits have gradients that sum to 0, so one of the router's singular values is rounding alone.
      const auto [all_u, all_s, all_vt] = torch::linalg_svd(g[i], false);
      const std::int64_t rank = (all_s > 1e-4 * all_s.max()).sum().item<std::int64_t>();
      CHECK(rank >= std::min(rows, cols) - (per_expert == 0 ? 1 : 0));
      const torch::Tensor u = all_u.narrow(1, 0, rank), vt = all_vt.narrow(0, 0, rank);
      torch::Tensor values = (all_s / all_s.norm()).narrow(0, 0, rank);
      for (int step = 0; step < 5; ++step) values = 3.4445 * values - 4.7750 * values.pow(3) + 2.0315 * values.pow(5);
      const torch::Tensor want = lr * scale * torch::mm(u * values, vt);
      const torch::Tensor moved = from[i] * (1 - lr * way.options.optim.weight_decay) - to[i];
      CHECK(((torch::mm(u, torch::mm(u.t(), moved)) - want).norm() / want.norm()).item<double>() <= 0.03);
    }
  }
}

TEST_CASE("MoE learner: two ranks update as one process, also with Muon and shards") {
  const std::vector<test::Sequence> s = mixture_sequences();
  const std::vector<types::MicroBatch> shares = {test::pack({s[0], s[1]}), test::pack({s[2], s[3]})};
  const model::ModelConfig config = test::tiny_moe_config();
  for (const auto optim : {learner::OptimName::adamw, learner::OptimName::muon}) {
    MixtureWay way = mixture_ways().front();
    way.options.optim.name = optim;
    MixtureRun alone(way, config);
    alone.gradients(shares);
    const double norm = alone.learner.update().metrics.at("actor/grad_norm");
    const test::Named expected = test::masters_of(alone.learner);
    std::vector<test::Named> plain(2), shard(2);
    for (const bool sharded : {false, true}) {
      way.options.shard_optimizer = sharded;
      std::vector<double> norms(2);
      test::Ranks(2).run([&](dist::Collectives& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        learner::Learner learner(config, test::tiny_weights(config), way.options, world);
        learner.accumulate(shares[rank], test::count(shares), test::policy_options(), {1.0F});
        norms[rank] = learner.update().metrics.at("actor/grad_norm");
        (sharded ? shard : plain)[rank] = test::masters_of(learner);
      });
      CHECK(norms[0] == norms[1]);
      CHECK(test::close(norms[0], norm, 0, 1e-6));
    }
    CHECK((plain[0] == plain[1]));
    // Not with AdamW, whose first step is ±lr whatever the gradient's size.
    if (optim == learner::OptimName::muon) CHECK(mixture_difference(plain[0], expected) <= 1e-3);
    test::Named together = shard[0];
    together.insert(shard[1].begin(), shard[1].end());
    CHECK(together.size() == shard[0].size() + shard[1].size());
    CHECK((together == plain[0]));
  }
}

TEST_CASE("MoE learner: an expert's non-finite gradient is named as its file names it, on every rank") {
  static std::mutex assertions;  // Catch2's assertions are not thread-safe
  const model::ModelConfig config = test::tiny_moe_config();
  for (const bool sharded : {false, true}) {
    test::Ranks(3).run([&](dist::Collectives& world) {
      learner::LearnerOptions options = test::options();
      options.shard_optimizer = sharded;
      learner::Learner learner(config, test::tiny_weights(config), options, world);
      const types::MicroBatch batch = test::pack(mixture_sequences());
      std::vector<std::string> names;
      const std::int64_t half = config.moe_intermediate_size * config.hidden_size;
      for (const auto& [tensor, at] :
           {std::pair{kGateUp, 2 * 2 * half + half - 1}, {kGateUp, 3 * 2 * half + half}, {kDown, 4 * half}}) {
        learner.accumulate(batch, test::count({batch, batch, batch}), test::policy_options(), {1.0F});
        if (world.rank() == 1) learner.state().gradients().at(tensor).as<float>()[at] = NAN;
        names.push_back(learner.update().non_finite);
      }
      const std::lock_guard lock(assertions);
      CHECK(names == std::vector<std::string>{"model.layers.0.mlp.experts.2.gate_proj.weight",
                                              "model.layers.0.mlp.experts.3.up_proj.weight",
                                              "model.layers.0.mlp.experts.4.down_proj.weight"});
      CHECK(learner.num_updates() == 0);
    });
  }
}

TEST_CASE("MoE learner: continues with equal bits after a restore") {
  MixtureWay way = mixture_ways()[3];
  const model::ModelConfig config = test::tiny_moe_config();
  const types::MicroBatch batch = test::pack(mixture_sequences());
  MixtureRun run(way, config);
  const auto step = [&](MixtureRun& one) {
    one.learner.publish(one.snapshot, one.learner.num_updates());
    one.gradients({batch});
    REQUIRE(one.learner.update().finite);
  };
  step(run);
  MixtureRun other(way, config);
  test::restore(other.learner, test::masters_of(run.learner), test::moments_of(run.learner), run.learner.num_updates());
  for (int i = 0; i < 2; ++i) {
    step(run);
    step(other);
  }
  CHECK((test::masters_of(run.learner) == test::masters_of(other.learner)));
  CHECK((test::moments_of(run.learner) == test::moments_of(other.learner)));
}

TEST_CASE("update-aware scaling: reaches router and experts, and leaves an MoE's log-probs unchanged") {
  const model::ModelConfig config = test::tiny_moe_config(false);
  MixtureRun run(mixture_ways().front(), config);
  const types::MicroBatch batch = test::pack(mixture_sequences());
  const std::vector<float> before = run.learner.score(batch, {1.0F}).logprobs;
  const test::Named masters = test::masters_of(run.learner);
  run.learner.apply_uaq(2.0F);  // a power of two: no product rounds differently
  CHECK((run.learner.score(batch, {1.0F}).logprobs == before));
  const test::Named scaled = test::masters_of(run.learner);
  for (const auto& [name, factor] : {std::pair{std::string(kGateUp), 0.5F},
                                     {std::string(kDown), 1.0F},
                                     {std::string("model.layers.0.mlp.gate.weight"), 0.5F},
                                     {std::string("model.layers.0.post_attention_layernorm.weight"), 2.0F}}) {
    CAPTURE(name);
    CHECK(scaled.at(name).back() == factor * masters.at(name).back());
  }
}

TEST_CASE("LibTorch learner: refuses an MoE in one error") {
  const auto world = dist::make_solo();
  const model::ModelConfig config = test::tiny_moe_config();
  test::LearnerOptions options = test::options();
  options.torch_ops = true;
  CHECK_THROWS_WITH(test::Learner(config, test::tiny_weights(config), options, *world),
                    Catch::Matchers::Contains("trainer.device cuda") && Catch::Matchers::Contains("a dense model") &&
                        Catch::Matchers::Contains("use trainer.device cpu"));
}

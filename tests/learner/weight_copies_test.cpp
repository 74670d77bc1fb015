// Tests copies of updated weights that travel between ranks while the optimizer works on the next tensors.
#include <cstring>
#include <functional>
#include <set>

#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/update/optimizer.h"

namespace qrl {

using learner::Parameters;
using learner::RankTensors;
using torch::Tensor;

namespace {

using Make = std::function<std::unique_ptr<RankTensors>(dist::Collectives&)>;

std::unique_ptr<RankTensors> by_nccl(dist::Collectives& world) {
  return learner::ranks_by_nccl(world, torch::kCPU, QRL_NCCL_STAND_IN);
}
std::unique_ptr<RankTensors> through_host(dist::Collectives& world) { return learner::ranks_through_host(world); }

model::ModelConfig model_config() {
  model::ModelConfig config = test::tiny_config(true, false, /*tied=*/false);
  config.num_hidden_layers = 3;
  return config;
}

struct Way {
  std::string name;
  learner::ParameterOptions options;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  const auto add = [&](const std::string& name) -> learner::ParameterOptions& {
    return all.emplace_back(Way{name, {}}).options;
  };
  const auto by_torch = [](learner::ParameterOptions& options) {
    options.torch_ops = true;
    options.packs_head = false;
  };
  add("bf16");
  by_torch(add("bf16, LibTorch's operations"));
  add("fp32").compute = torch::kFloat32;
  add("lm_head in fp32").f32_lm_head = true;
  add("layers of a snapshot's").reads_layers = false;
  add("muon").muon = true;
  learner::ParameterOptions& muon = add("muon, LibTorch's operations");
  muon.muon = true;
  by_torch(muon);
  return all;
}

/// Returns the tensors that the forward pass reads; undefined for layers' matrices that it does not own.
std::vector<Tensor> read_by_forward(const Parameters& parameters) {
  const learner::PolicyWeights& policy = parameters.policy();
  std::vector<Tensor> all = {policy.embedding.value, policy.lm_head.value, policy.final_norm.value};
  for (const learner::LayerWeights& layer : policy.layers) {
    all.insert(all.end(),
               {layer.qkv.weight.value, layer.o.weight.value, layer.gate_up.weight.value, layer.down.weight.value,
                layer.input_norm_D.value, layer.post_norm_D.value, layer.q_norm_E.value});
  }
  for (Tensor& each : all) each = each.defined() ? each.clone() : each;
  const ops::PackedLinear& head = policy.head;
  const Tensor packed = torch::zeros({head.out, head.in});
  if (head.out > 0) ops::unpack_rows(head, 0, head.out, packed.data_ptr<float>());
  all.push_back(packed);
  return all;
}

/// Returns the forward pass's tensors and the gradients after two updates. Only a tensor's owner has its summed
/// gradient; other ranks hold NaN.
std::vector<Tensor> updated(const Way& way, dist::Collectives& world, bool sharded,
                            const std::function<std::unique_ptr<RankTensors>(const Parameters&)>& make) {
  learner::ParameterOptions options = way.options;
  if (sharded) {
    options.rank = world.rank();
    options.shards = world.size();
  }
  Parameters parameters(model_config(), test::tiny_weights(model_config()), options);
  const std::unique_ptr<RankTensors> ranks = make(parameters);
  parameters.refresh(*ranks);
  learner::OptimizerOptions optim = test::adamw();
  if (options.muon) optim.name = learner::OptimName::muon;
  for (int update = 0; update < 2; ++update) {
    parameters.flat().gradients.copy_(
        torch::arange(parameters.layout().all().count, torch::kFloat32).mul(0.37 * (update + 1)).sin());
    for (const learner::Placement& each : parameters.layout().placements()) {
      if (!parameters.layout().is_mine(each)) parameters.flat().gradient(each).mul_(NAN);
    }
    learner::take_step(parameters, optim, {0.01, update, 0.5}, *ranks);
  }
  std::vector<Tensor> left = read_by_forward(parameters);
  left.push_back(parameters.flat().gradients);
  return left;
}

std::vector<Tensor> updated(const Way& way, dist::Collectives& world, bool sharded, const Make& make) {
  return updated(way, world, sharded, [&](const Parameters&) { return make(world); });
}

/// Calls `begins` before each copy begins.
class Watched final : public RankTensors {
 public:
  Watched(std::unique_ptr<RankTensors> ranks, std::function<void()> begins)
      : ranks_(std::move(ranks)), begins_(std::move(begins)) {}
  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  void begin_sum(const Tensor& values, std::span<const dist::Part> parts) override { ranks_->begin_sum(values, parts); }
  void end_sums() override { ranks_->end_sums(); }
  bool sums_during_backward() const override { return ranks_->sums_during_backward(); }
  void begin_copies(const Tensor& values, std::span<const dist::Part> parts) override {
    begins_();
    ranks_->begin_copies(values, parts);
  }
  void end_copies() override { ranks_->end_copies(); }
  bool copies_beside_work() const override { return ranks_->copies_beside_work(); }
  void broadcast(const Tensor& values, int root) override { ranks_->broadcast(values, root); }

 private:
  std::unique_ptr<RankTensors> ranks_;
  std::function<void()> begins_;
};

using Names = std::set<std::string>;

/// Holds, for each rank and each copy of the first update, which of the rank's own tensors were updated before.
struct Begins {
  std::vector<std::vector<Names>> updated_before;
  std::vector<Names> owned;
};
Begins begins_of(const Way& way, int num_ranks, const Make& make) {
  Begins begins;
  begins.updated_before.resize(static_cast<std::size_t>(num_ranks));
  begins.owned = std::vector<Names>(begins.updated_before.size());
  test::Ranks(num_ranks).run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    updated(way, world, true, [&](const Parameters& parameters) -> std::unique_ptr<RankTensors> {
      const auto names = [&parameters](const auto& condition) {
        Names found;
        for (const learner::Placement& each : parameters.layout().placements()) {
          const std::int64_t count = each.spec.shape.numel();
          if (parameters.layout().is_mine(each) &&
              condition(parameters.flat().master(each), parameters.flat().exp_avg.narrow(0, each.owned_offset, count)))
            found.insert(each.spec.name);
        }
        return found;
      };
      begins.owned[rank] = names([](const Tensor&, const Tensor&) { return true; });
      return std::make_unique<Watched>(make(world), [&begins, rank, names] {
        // Moments are 0 before the update.
        begins.updated_before[rank].push_back(
            names([](const Tensor&, const Tensor& moment) { return moment.count_nonzero().item<int>() > 0; }));
      });
    });
  });
  return begins;
}

}  // namespace

TEST_CASE("weight copies: every rank reads the owners' updated tensors, and none before it arrived") {
  for (const Way& way : ways()) {
    const auto solo = dist::make_solo();
    const std::vector<Tensor> want = updated(way, *solo, false, through_host);
    // With 50 ranks some own no tensor.
    for (const int num_ranks : {2, 3, 50}) {
      for (const bool by_host : {true, false}) {
        CAPTURE(way.name, num_ranks, by_host);
        std::vector<std::vector<Tensor>> got(static_cast<std::size_t>(num_ranks));
        test::Ranks(num_ranks).run([&](dist::Collectives& world) {
          got[static_cast<std::size_t>(world.rank())] =
              updated(way, world, true, by_host ? Make(through_host) : Make(by_nccl));
        });
        for (const std::vector<Tensor>& mine : got) {
          for (std::size_t i = 0; i < want.size(); ++i) {
            CAPTURE(i);
            if (mine[i].defined()) CHECK(torch::equal(mine[i], want[i].to(mine[i].scalar_type())));
          }
        }
      }
    }
  }
}

TEST_CASE("weight copies: a layer's copies start before the next is updated, in the same order on every rank") {
  const auto is_before = [](const std::string& name, std::int64_t next_layer) {
    const auto layer = name.find("_proj.") == std::string::npos ? -1 : std::stoll(name.substr(13));
    return layer < next_layer;
  };
  for (const Way& way : ways()) {
    if (!way.options.reads_layers) continue;
    for (const int num_ranks : {2, 3, 50}) {
      CAPTURE(way.name, num_ranks);
      const Begins begins = begins_of(way, num_ranks, by_nccl);
      for (std::size_t rank = 0; rank < begins.owned.size(); ++rank) {
        CAPTURE(rank);
        // The first three copies are the refresh before any update; embedding and lm_head, gains, and three layers
        // follow.
        const std::vector<Names>& before = begins.updated_before[rank];
        REQUIRE(before.size() >= 8);
        for (std::size_t i = 0; i < 8; ++i) {
          Names want;
          for (const std::string& name : begins.owned[rank]) {
            if (i >= 3 && is_before(name, i < 5 ? 0 : static_cast<std::int64_t>(i) - 4)) want.insert(name);
          }
          CHECK(before[i] == want);
        }
      }
    }
  }
}

TEST_CASE("sharded publish: one exchange per layer, with every tensor once") {
  for (const bool tied : {false, true}) {
    model::ModelConfig config = test::tiny_config(true, false, tied);
    config.num_hidden_layers = 3;
    const model::Weights weights = test::tiny_weights(config);
    for (const bool by_host : {true, false}) {
      CAPTURE(tied, by_host);
      test::Ranks(3).run([&](dist::Collectives& world) {
        learner::ParameterOptions options;
        options.rank = world.rank();
        options.shards = world.size();
        const Parameters parameters(config, weights, options);
        int num_exchanges = 0;
        Watched ranks(by_host ? through_host(world) : by_nccl(world), [&] { ++num_exchanges; });
        Names seen;
        parameters.visit_masters(ranks, [&](const model::WeightViews& some) {
          for (const auto& [name, view] : some) {
            CHECK(seen.insert(name).second);
            const base::Buffer& want = weights.at(name);
            CHECK(std::memcmp(view.as<float>(), want.as<float>(), want.num_bytes()) == 0);
          }
        });
        CHECK(seen.size() == model::weight_specs(config).size());
        CHECK(num_exchanges == 3 + (tied ? 1 : 2) + 1);  // layers; embedding and lm_head; gains
      });
    }
  }
}

TEST_CASE("weight copies: not divided by layer where copies run sequentially") {
  for (const Way& way : ways()) {
    if (!way.options.reads_layers) continue;
    CAPTURE(way.name);
    const Begins begins = begins_of(way, 2, through_host);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::vector<Names>& before = begins.updated_before[rank];
      REQUIRE(before.size() == 9);  // three each: the refresh before any update, and two updates
      for (std::size_t i = 3; i < 9; ++i) CHECK(before[i] == begins.owned[rank]);
    }
  }
}

}  // namespace qrl

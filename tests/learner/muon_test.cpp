// Tests Muon against numpy's singular values (scripts/golden/muon.py), and what must not change its bits.
#include "learner/update/muon.h"

#include <ATen/Parallel.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/threads.h"
#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"

namespace qrl {

using test::Named;

namespace {

nlohmann::json golden() {
  std::ifstream file(test::shipped_data() / "golden" / "muon.json");
  return nlohmann::json::parse(file);
}

torch::Tensor matrix(const nlohmann::json& item, const char* name) {
  return torch::tensor(item[name].get<std::vector<float>>()).view({item["rows"], item["cols"]});
}

learner::LearnerOptions muon() {
  learner::LearnerOptions options = test::options();
  options.optim.name = learner::OptimName::muon;
  options.optim.lr = 1e-3;
  options.optim.weight_decay = 0.1;
  return options;
}

std::vector<test::Sequence> muon_sequences() {
  std::vector<test::Sequence> sequences;
  for (std::uint64_t i = 0; i < 6; ++i) sequences.push_back(test::random_sequence(i, 3, 8, 37));
  return sequences;
}

/// Returns masters after three updates on this many ranks, with the sequences distributed over them.
std::vector<Named> train_muon(int num_ranks, const learner::LearnerOptions& options) {
  std::vector<Named> masters(static_cast<std::size_t>(num_ranks));
  const std::vector<test::Sequence> s = muon_sequences();
  const types::GlobalCounts counts = test::count({test::pack(s)});
  test::Ranks(num_ranks).run([&](dist::Collectives& world) {
    const model::ModelConfig config = test::tiny_config();
    learner::Learner learner(config, test::tiny_weights(config), options, world);
    for (int step = 0; step < 3; ++step) {
      for (auto i = static_cast<std::size_t>(world.rank()); i < s.size(); i += static_cast<std::size_t>(num_ranks))
        learner.accumulate(test::pack({s[i]}), counts, test::policy_options(), {1.0F});
      REQUIRE(learner.update().finite);
    }
    masters[static_cast<std::size_t>(world.rank())] = test::masters_of(learner);
  });
  return masters;
}

}  // namespace

TEST_CASE("Newton-Schulz in bf16: singular values equal numpy's polynomial") {
  const nlohmann::json file = golden();
  const double lowest = file["lowest"], highest = file["highest"];
  CHECK(lowest > 0.1);
  CHECK(highest < 1.25);
  for (const auto& item : file["spectra"]) {
    CAPTURE(item["rows"].get<int>(), item["cols"].get<int>());
    const torch::Tensor got = learner::newton_schulz(matrix(item, "matrix"), file["steps"]).to(torch::kFloat64);
    const torch::Tensor want = matrix(item, "orthogonal").to(torch::kFloat64);
    // bf16 keeps 8 bits: three roundings a step, whose errors the later steps propagate.
    CHECK(((got - want).norm() / want.norm()).item<double>() <= 0.03);
    const torch::Tensor values = torch::linalg_svdvals(got);
    CHECK(values.min().item<double>() >= lowest - 0.05);
    CHECK(values.max().item<double>() <= highest + 0.05);
    const torch::Tensor sorted =
        std::get<0>(torch::tensor(item["after"].get<std::vector<double>>(), torch::kFloat64).sort(0, true));
    CHECK((values - sorted).abs().max().item<double>() <= 0.05);
    const double longest = std::max(item["rows"].get<double>(), item["cols"].get<double>());
    CHECK(test::close(0.2 * std::sqrt(longest) * got.pow(2).mean().sqrt().item<double>(), item["rms"], 0, 0.02));
  }
  CHECK(learner::newton_schulz(torch::zeros({3, 5}), 5).abs().max().item<double>() == 0);
}

TEST_CASE("Muon: updates equal numpy's, with momentum, Nesterov, decoupled decay, scale, clipping") {
  for (const auto& item : golden()["updates"]) {
    CAPTURE(item["settings"].dump());
    const auto& how = item["settings"];
    torch::Tensor weights = matrix(item, "weights"), momentum = torch::zeros_like(weights);
    const torch::Tensor before = weights.clone();
    learner::MuonStep step{how["lr"],
                           how["weight_decay"],
                           how["gradient_scale"],
                           {how["momentum"], how["nesterov"], how["ns_steps"], how["match_adamw_rms"]}};
    const auto world = dist::make_solo();
    for (const auto& values : item["gradients"]) {
      torch::Tensor gradient = torch::tensor(values.get<std::vector<float>>()).view_as(weights);
      const learner::MuonMatrix one{weights, gradient, momentum};
      learner::muon_step(std::span(&one, 1), step, *learner::ranks_through_host(*world));
      CHECK(gradient.abs().max().item<float>() == 0);
    }
    const torch::Tensor want = matrix(item, "expected");
    const double moved = (want - before).norm().item<double>();
    CHECK((weights - want).norm().item<double>() <= 0.03 * moved);
    CHECK(torch::allclose(momentum, matrix(item, "momentum"), 1e-5, 1e-6));
  }
}

TEST_CASE("Muon: updates the layers' matrices, AdamW everything else") {
  const auto one_update = [](const learner::LearnerOptions& options) {
    const auto world = dist::make_solo();
    const model::ModelConfig config = test::tiny_config(true, false, false);
    learner::Learner learner(config, test::tiny_weights(config), options, *world);
    const types::MicroBatch batch = test::pack(muon_sequences());
    learner.accumulate(batch, test::count({batch}), test::policy_options(), {1.0F});
    learner.update();
    return std::pair{test::masters_of(learner), test::moments_of(learner)};
  };
  learner::LearnerOptions adamw = muon();
  adamw.optim.name = learner::OptimName::adamw;
  const auto [with_muon, muon_state] = one_update(muon());
  const auto [with_adamw, adamw_state] = one_update(adamw);
  int num_matrices = 0;
  for (const auto& [name, values] : with_muon) {
    const bool is_hidden = name.ends_with("_proj.weight");
    CAPTURE(name);
    CHECK((values == with_adamw.at(name)) == !is_hidden);
    CHECK(muon_state.count("exp_avg_sq." + name) == (is_hidden ? 0U : 1U));
    CHECK(adamw_state.count("exp_avg_sq." + name) == 1);
    num_matrices += is_hidden ? 1 : 0;
  }
  CHECK(num_matrices == 14);
}

TEST_CASE("Muon: equal bits on every rank") {
  const std::vector<Named> alone = train_muon(1, muon());
  for (const int num_ranks : {2, 3}) {
    const std::vector<Named> ranks = train_muon(num_ranks, muon());
    for (const Named& masters : ranks) CHECK((masters == ranks[0]));
    std::string worst;
    // Gradients are summed in another order, and bf16 propagates a last bit.
    CHECK(test::relative_difference(ranks[0], alone[0], worst) <= 1e-3);
  }
}

TEST_CASE("Muon: equal bits for any number of threads") {
  const auto stepped = [](int num_threads) {
    const int before = base::num_threads();
    base::set_num_threads(num_threads);
    at::set_num_threads(num_threads);
    torch::manual_seed(1);
    std::vector<torch::Tensor> tensors;
    std::vector<learner::MuonMatrix> matrices;
    for (const auto& [rows, cols] : {std::pair{64, 96}, {300, 40}, {7, 9}, {128, 128}, {96, 256}}) {
      for (int i = 0; i < 3; ++i) tensors.push_back(torch::randn({rows, cols}));
      const auto last = [&](std::size_t from_end) { return tensors[tensors.size() - from_end]; };
      matrices.push_back({last(3), last(2), last(1)});
    }
    const auto solo = dist::make_solo();
    learner::muon_step(matrices, {.lr = 0.1}, *learner::ranks_through_host(*solo));
    base::set_num_threads(before);
    at::set_num_threads(before);
    return tensors;
  };
  const auto serial = stepped(1), parallel = stepped(2);
  for (std::size_t i = 0; i < serial.size(); ++i) CHECK(torch::equal(serial[i], parallel[i]));
}

TEST_CASE("Muon: continues with equal bits after a restore") {
  const auto world = dist::make_solo();
  const model::ModelConfig config = test::tiny_config();
  learner::Learner learner(config, test::tiny_weights(config), muon(), *world);
  const types::MicroBatch batch = test::pack(muon_sequences());
  const auto step = [&](learner::Learner& one) {
    one.accumulate(batch, test::count({batch}), test::policy_options(), {1.0F});
    one.update();
  };
  step(learner);
  learner::Learner other(config, test::tiny_weights(config), muon(), *world);
  test::restore(other, test::masters_of(learner), test::moments_of(learner), learner.num_updates());
  for (int i = 0; i < 2; ++i) {
    step(learner);
    step(other);
  }
  CHECK(test::masters_of(learner) == test::masters_of(other));
  CHECK(test::moments_of(learner) == test::moments_of(other));
}

}  // namespace qrl

// The GRPO objective and the schedules against an independent fp64 implementation (scripts/golden/losses.py).
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "learner/grpo.h"
#include "learner/schedule.h"
#include "support/catch.h"

namespace qrl {

namespace {

torch::Tensor values(const nlohmann::json& list) {
  std::vector<double> numbers;
  for (const auto& item : list) {
    numbers.push_back(item.is_string() ? (item == "inf" ? HUGE_VAL : -HUGE_VAL) : item.get<double>());
  }
  return torch::tensor(numbers, torch::kFloat64);
}

config::KlType kl_type(const std::string& name) {
  return name == "k1" ? config::KlType::k1 : (name == "k2" ? config::KlType::k2 : config::KlType::k3);
}

}  // namespace

TEST_CASE("GRPO's terms and gradients are those of the loops in fp64") {
  std::ifstream file(test::shipped_data() / "golden" / "losses.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  REQUIRE(golden["cases"].size() >= 10);
  for (const auto& item : golden["cases"]) {
    CAPTURE(item["name"].get<std::string>());
    learner::GrpoTokens tokens;
    tokens.log_probs = values(item["log_probs"]).set_requires_grad(true);
    tokens.entropy = values(item["entropy"]);
    tokens.old_log_probs = values(item["old"]);
    tokens.sampler_log_probs = values(item["sampler"]);
    tokens.reference_log_probs = values(item["reference"]);
    tokens.advantages = values(item["advantages"]);
    tokens.sequence_of_token = torch::tensor(item["sequence"].get<std::vector<std::int64_t>>());
    learner::GrpoSettings settings;
    settings.clip = {item["clip_low"], item["clip_high"]};
    settings.correction.method =
        item["correction"] == "tis" ? config::CorrectionMethod::tis : config::CorrectionMethod::none;
    settings.correction.threshold = item["threshold"].get<double>();
    settings.kl_loss_coef = item["kl_coef"];
    settings.kl_loss_type = kl_type(item["kl_type"]);
    settings.entropy_coef = item["entropy_coef"];
    settings.num_sequences = item["num_sequences"];

    const learner::GrpoLoss loss = learner::grpo_loss(tokens, settings);
    const auto& expected = item["expected"];
    CHECK(test::close(loss.policy.item<double>(), expected["policy"], 1e-12, 1e-9));
    CHECK(test::close(loss.total.item<double>(), expected["total"], 1e-12, 1e-9));
    if (settings.kl_loss_coef != 0) CHECK(test::close(loss.kl.item<double>(), expected["kl"], 1e-12, 1e-9));
    loss.total.backward();
    const torch::Tensor gradient = values(expected["gradient"]);
    for (std::int64_t t = 0; t < gradient.numel(); ++t) {
      CAPTURE(t);
      CHECK(test::close(tokens.log_probs.grad()[t].item<double>(), gradient[t].item<double>(), 1e-12, 1e-9));
    }
  }
}

TEST_CASE("no gradient flows through the sampler's correction") {
  const torch::Tensor log_probs = torch::tensor({-1.0, -2.0}, torch::kFloat64).set_requires_grad(true);
  config::CorrectionRecipe tis;
  const torch::Tensor weights = learner::correction_weights(log_probs, log_probs.detach() - 0.1, tis);
  CHECK_FALSE(weights.requires_grad());
  CHECK(test::close(weights[0].item<double>(), std::exp(0.1), 0, 1e-12));
}

TEST_CASE("learning rates follow their schedules") {
  config::OptimRecipe optim;
  optim.lr = 2;
  optim.lr_warmup_steps = 4;
  const auto rate = [&](std::int64_t updates) { return learner::learning_rate(optim, updates, 12); };
  CHECK(rate(0) == 0.5);
  CHECK(rate(3) == 2);
  CHECK(rate(100) == 2);
  optim.lr_scheduler = config::LrScheduler::linear;
  CHECK(rate(1) == 1);
  CHECK(rate(4) == 2);
  CHECK(rate(8) == 1);
  CHECK(rate(12) == 0);
  CHECK(rate(13) == 0);
  optim.lr_scheduler = config::LrScheduler::cosine;
  CHECK(rate(4) == 2);
  CHECK(test::close(rate(6), 1 + std::sqrt(0.5), 0, 1e-12));
  CHECK(test::close(rate(12), 0, 1e-12, 0));
}

}  // namespace qrl

// Tests the objectives against an independent fp64 implementation in numpy (scripts/golden/objective.py), and against
// statements of the papers.
#include "learner/objective/objective.h"

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "choices.h"
#include "learner/choices.h"
#include "learner/objective/ais.h"
#include "learner/tensors/torch.h"
#include "support/catch.h"

namespace qrl {

using learner::Objective;
using learner::ObjectiveSettings;
using learner::ObjectiveTokens;

namespace {

constexpr double kTolerance = 1e-9;  // relative; both sides are fp64, the file has 11 digits

const std::string kLosses[] = {"grpo", "dr_grpo", "dapo", "gspo", "tbpo", "cispo", "sapo", "dppo_tv", "dppo_kl"};
const std::string kMethods[] = {"none", "tis", "icepop", "mis_prod", "mis_geo", "tbpo", "ais"};

std::vector<double> numbers(const nlohmann::json& list) {
  std::vector<double> values;
  for (const auto& item : list) {
    values.push_back(item.is_string() ? (item == "inf" ? HUGE_VAL : -HUGE_VAL) : item.get<double>());
  }
  return values;
}

torch::Tensor tensor(const std::vector<double>& values) { return torch::tensor(values, torch::kFloat64); }

ObjectiveTokens tokens_of(const nlohmann::json& batch) {
  const auto read = [&](const char* name) { return tensor(numbers(batch[name])); };
  return {read("log_probs").set_requires_grad(true),
          read("entropy"),
          read("old"),
          read("sampler"),
          read("reference"),
          read("advantages"),
          learner::Sequences(torch::tensor(batch["sequence"].get<std::vector<std::int64_t>>()))};
}

/// Returns the clip, gate or bound of the loss, as keys of the section algorithm.
std::string bounds_of(const nlohmann::json& item) {
  const std::string name = item["loss"];
  const auto value = [&](const char* key) { return item[key].dump(); };
  if (name == "tbpo") return "";
  if (name == "cispo") return ", clip_ratio_high: " + value("clip_high");
  if (name == "sapo") return ", sapo: {tau_pos: " + value("tau_pos") + ", tau_neg: " + value("tau_neg") + "}";
  if (name.starts_with("dppo"))
    return ", " + name + ": {delta: " + value("delta") + ", ratio_cap: " + value("ratio_cap") + "}";
  return ", clip_ratio_low: " + value("clip_low") + ", clip_ratio_high: " + value("clip_high");
}

/// Returns the rejection, as keys of the section rollout_correction.
std::string rejection_of(const nlohmann::json& item) {
  std::string keys;
  if (item.contains("rs"))
    keys += ", rs: " + item["rs"].get<std::string>() + ", rs_stat: " + item["rs_stat"].get<std::string>() +
            ", rs_threshold: " + item["rs_high"].dump();
  if (item.contains("rs_low")) keys += ", rs_threshold_low: " + item["rs_low"].dump();
  if (item.contains("veto")) keys += ", token_veto_threshold: " + item["veto"].dump();
  return keys;
}

/// Builds the settings from a recipe's words, so that the path from recipe to formula is tested as well.
ObjectiveSettings settings_of(const nlohmann::json& item) {
  const auto value = [&](const char* name) { return item[name].dump(); };
  const std::string name = item["loss"], method = item["correction"];
  std::string loss = "name: " + name + ", loss_agg_mode: " + value("agg") + ", entropy_coef: " + value("entropy_coef") +
                     bounds_of(item);
  if (item.contains("moved_only")) loss += ", bound_moved_only: true";
  if (item.contains("mask_threshold")) loss += ", off_policy_mask_threshold: " + value("mask_threshold");
  if (item["kl_coef"] != 0) loss += ", kl_loss_coef: " + value("kl_coef") + ", kl_loss_type: " + value("kl_type");
  std::string bands;
  if (name == "tbpo") {
    bands = "seq_clip_ratio_low: " + value("clip_low") + ", seq_clip_ratio_high: " + value("clip_high") +
            ", neg_seq_clip_ratio_low: " + value("neg_low") + ", neg_seq_clip_ratio_high: " + value("neg_high");
  }
  if (!item["dual_clip"].is_null()) loss += ", clip_ratio_c: " + value("dual_clip");
  std::string correction = "method: " + method + ", behaviour_in_ratio: " + value("behaviour_in_ratio");
  if (method == "tbpo") {
    bands += std::string(bands.empty() ? "" : ", ") + "seq_tis_imp_ratio_cap: " + value("threshold") +
             ", mismatch_action: " + (item["drop"] ? "drop" : "clip");
  } else if (method == "ais") {
    correction += ", ais: {C: " + value("threshold") + "}";
  } else if (item["threshold"] > 0) {
    correction += ", threshold: " + value("threshold");
  }
  if (item["threshold_low"] > 0) correction += ", threshold_low: " + value("threshold_low");
  correction += rejection_of(item);
  if (item["acr"]) correction += ", acr: true";
  if (!bands.empty()) loss += ", tbpo: {" + bands + "}";
  learner::LossOptions options = test::policy_options(loss, correction);
  options.blend = item["ais_alpha"];
  return learner::objective_settings(options);
}

/// Tracks the worst relative difference, including NaN. Values below `floor`, where terms cancel, are relative to
/// `floor`.
struct Worst {
  double value = 0;
  void see(double got, double want, double floor) {
    const double difference = std::fabs(got - want) / std::max(std::fabs(want), floor);
    if (!(difference <= value)) value = std::isnan(difference) ? HUGE_VAL : difference;
  }
};

/// Returns random tokens in sequences of the given lengths. The log-ratios to the old policy and to the sampler have
/// deviations `drift` and `gap`.
ObjectiveTokens random_tokens(std::uint64_t seed, const std::vector<int>& lengths, double drift, double gap) {
  base::RandomStream random(seed, base::RandomPurpose::test, 1);
  std::vector<double> log_probs, entropy, old, sampler, reference, advantages;
  std::vector<std::int64_t> sequence;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const double advantage = (s % 2 == 0 ? 1 : -1) * (0.2 + random.uniform());
    for (int t = 0; t < lengths[s]; ++t) {
      log_probs.push_back(-0.1 - 2 * random.uniform());
      old.push_back(log_probs.back() - drift * static_cast<double>(random.normal()));
      sampler.push_back(old.back() - gap * static_cast<double>(random.normal()));
      reference.push_back(log_probs.back() + 0.1 * static_cast<double>(random.normal()));
      entropy.push_back(random.uniform());
      advantages.push_back(advantage);
      sequence.push_back(static_cast<std::int64_t>(s));
    }
  }
  return {tensor(log_probs).set_requires_grad(true),
          tensor(entropy),
          tensor(old),
          tensor(sampler),
          tensor(reference),
          tensor(advantages),
          learner::Sequences(torch::tensor(sequence))};
}

learner::Denominators own_denominators(const ObjectiveTokens& tokens) {
  return {tokens.sequences.num_tokens(), tokens.sequences.num_slots(), 16};
}

ObjectiveSettings settings(const std::string& name, const std::string& method, double blend = 0.5) {
  learner::LossOptions options = test::policy_options("name: " + name, "method: " + method);
  options.blend = blend;
  return learner::objective_settings(options);
}

bool is_defined(const std::string& name, const std::string& method) {
  try {
    (void)settings(name, method);
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

const learner::KlEstimator& estimator(const char* word) { return *learner::kl_estimators().find(word); }

torch::Tensor gradient_of(ObjectiveTokens& tokens, const ObjectiveSettings& how) {
  const Objective terms = learner::objective(tokens, how, own_denominators(tokens));
  return torch::autograd::grad({terms.total}, {tokens.log_probs})[0];
}

}  // namespace

TEST_CASE("losses, aggregations, corrections: values and gradients equal numpy's loops") {
  std::ifstream file(test::shipped_data() / "golden" / "objective.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  Worst worst_value, worst_gradient;
  std::int64_t num_cases = 0, num_gradients = 0;
  std::map<std::string, int> combinations;
  for (const auto& batch : golden["batches"]) {
    const learner::Denominators denominators{batch["num_tokens"], batch["num_sequences"], batch["max_response_length"]};
    for (const auto& item : batch["cases"]) {
      CAPTURE(batch["name"].get<std::string>(), item["loss"].get<std::string>(), item["agg"].get<std::string>(),
              item["correction"].get<std::string>());
      const ObjectiveTokens tokens = tokens_of(batch);
      const Objective terms = learner::objective(tokens, settings_of(item), denominators);
      const auto& expected = item["expected"];
      Worst value, gradient;
      value.see(terms.policy.item<double>(), expected["policy"], 1e-3);
      value.see(terms.total.item<double>(), expected["total"], 1e-3);
      if (terms.kl.defined()) value.see(terms.kl.item<double>(), expected["kl"], 1e-3);
      terms.total.backward();
      const std::vector<double> want = numbers(expected["gradient"]);
      for (std::size_t t = 0; t < want.size(); ++t) {
        gradient.see(tokens.log_probs.grad()[static_cast<std::int64_t>(t)].item<double>(), want[t], 1e-12);
        ++num_gradients;
      }
      CHECK(value.value <= kTolerance);
      CHECK(gradient.value <= kTolerance);
      worst_value.see(value.value, 0, 1);
      worst_gradient.see(gradient.value, 0, 1);
      ++num_cases;
      ++combinations[item["loss"].get<std::string>() + item["agg"].get<std::string>() +
                     item["correction"].get<std::string>() + item["acr"].dump() + item["behaviour_in_ratio"].dump() +
                     item["drop"].dump() + rejection_of(item) + (item.contains("mask_threshold") ? "mask" : "") +
                     (item.contains("moved_only") ? "moved" : "")];
    }
  }
  CHECK(num_cases == golden["manifest"]["cases"].get<std::int64_t>());
  CHECK(combinations.size() == golden["manifest"]["combinations"].get<std::size_t>());
  std::printf(
      "goldens: %zu combinations, %lld cases, %lld gradients; worst relative difference %.1e, of a gradient %.1e\n",
      combinations.size(), static_cast<long long>(num_cases), static_cast<long long>(num_gradients), worst_value.value,
      worst_gradient.value);
}

TEST_CASE("AIS: signals equal numpy's loops, also computed in parts") {
  std::ifstream file(test::shipped_data() / "golden" / "objective.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const learner::AisSettings usual;
  for (const auto& batch : golden["batches"]) {
    CAPTURE(batch["name"].get<std::string>());
    const std::vector<double> old = numbers(batch["old"]), sampler = numbers(batch["sampler"]),
                              advantages = numbers(batch["advantages"]);
    for (const std::size_t cut : {std::size_t{0}, old.size() / 3}) {
      learner::AisSums sums;
      for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, old.size()}}) {
        const auto part = [b = begin, n = end - begin](const std::vector<double>& v) {
          return std::span(v).subspan(b, n);
        };
        const learner::AisSums mine = learner::ais_sums(part(old), part(sampler), part(advantages), usual.cap);
        for (const auto& member : learner::kAisSums) sums.*member += mine.*member;
      }
      const learner::AisSignals got = learner::ais_signals(sums, usual);
      const auto& want = batch["ais"];
      CHECK(test::close(got.alpha, want["alpha"], 1e-9, 1e-9));
      CHECK(test::close(got.alpha_ess, want["alpha_ess"], 1e-9, 1e-9));
      CHECK(test::close(got.alpha_mis, want["alpha_mis"], 1e-9, 1e-9));
      CHECK(test::close(got.alpha_var, want["alpha_var"], 1e-6, 1e-9));
      CHECK(test::close(got.mean_abs_log_rho, want["d_bar"], 1e-12, 1e-9));
      CHECK(test::close(got.sigma_ratio, want["sigma_ratio"], 1e-6, 1e-9));
    }
  }
}

TEST_CASE("AIS: blends nothing without a gap, and everything except noise with a large one") {
  learner::AisSettings how;
  const std::vector<double> old(64, -1.0);
  std::vector<double> sampler = old, advantages(64);
  for (std::size_t t = 0; t < advantages.size(); ++t) advantages[t] = t % 2 == 0 ? 1 : -1;
  const auto signals = [&] { return learner::ais_signals(learner::ais_sums(old, sampler, advantages, how.cap), how); };
  CHECK(signals().alpha == 0);  // rho = 1 everywhere
  CHECK(signals().alpha_ess == 1);

  for (std::size_t t = 0; t < sampler.size(); ++t) sampler[t] += t % 3 == 0 ? 0.01 : -0.005;
  how.delta = 1e-9;  // with δ near 0, alpha is clip(alpha_ess - beta_var alpha_var, 0, 1)
  learner::AisSignals got = signals();
  CHECK(got.alpha_mis == 1);
  CHECK(got.alpha_var == 0);
  CHECK(got.alpha == got.alpha_ess);
  CHECK(got.alpha < 1);
  how.delta = 0.02;
  got = signals();
  CHECK(test::close(got.alpha, got.alpha_ess * got.mean_abs_log_rho / 0.02, 0, 1e-12));

  std::fill(sampler.begin(), sampler.end(), 30.0);  // one token has all the weight
  sampler[5] = -30;
  how.gamma = 1e9;
  CHECK(signals().alpha_ess < 0.2);
  how.gamma = 1.2;
  std::fill(sampler.begin(), sampler.end(), -1 - std::log(4.0));  // A·w varies four times as much as A
  got = signals();
  CHECK(test::close(got.alpha_var, (4 - 1.2) / 1.2, 0, 1e-5));
  CHECK(got.alpha == 0);
  CHECK(learner::ais_signals({}, how).alpha == 0);
}

TEST_CASE("losses: autograd equals differences of the value") {
  for (const std::string& name : kLosses) {
    for (const std::string& method : kMethods) {
      // GSPO's token form is defined by its gradient, which differs from the derivative of its value.
      if (!is_defined(name, method)) continue;
      if (name == "gspo" && settings(name, method).surrogate.token_form) continue;
      if (name == "cispo" || name.starts_with("dppo")) continue;  // their weights are constants: see the next case
      CAPTURE(name, method);
      const bool narrow = name == "gspo" || name == "tbpo";
      ObjectiveTokens tokens = random_tokens(7, {3, 5, 2, 4}, narrow ? 3e-4 : 0.3, 0.3);
      ObjectiveSettings how = settings(name, method);
      how.kl_loss_coef = 0.1;
      const torch::Tensor gradient = gradient_of(tokens, how);
      CHECK(gradient.abs().max().item<double>() > 1e-5);
      constexpr double kStep = 1e-6;
      for (std::int64_t t = 0; t < gradient.numel(); ++t) {
        const auto value = [&](double shift) {
          const torch::NoGradGuard no_grad;
          ObjectiveTokens moved = tokens;
          moved.log_probs = tokens.log_probs.detach().clone();
          moved.log_probs[t] += shift;
          return learner::objective(moved, how, own_denominators(moved)).total.item<double>();
        };
        CHECK(test::close(gradient[t].item<double>(), (value(kStep) - value(-kStep)) / (2 * kStep), 1e-7, 1e-6));
      }
    }
  }
}

TEST_CASE("weighted log-prob loss: its gradient equals differences with fixed weights") {
  for (const std::string name : {"cispo", "dppo_tv", "dppo_kl"}) {
    CAPTURE(name);
    ObjectiveTokens tokens = random_tokens(7, {3, 5, 2, 4, 30, 30}, 0.9, 0.3);
    const ObjectiveSettings how = settings(name, name == "cispo" ? "tis" : "none");
    const Objective terms = learner::objective(tokens, how, own_denominators(tokens));
    const torch::Tensor gradient = torch::autograd::grad({terms.total}, {tokens.log_probs})[0];
    // J is linear in log π with fixed weights: its slope is J/log π.
    const torch::Tensor slope = terms.surrogate.objective.detach() / tokens.log_probs.detach();
    const torch::Tensor shares = learner::token_shares(how.loss_agg_mode, tokens.sequences, own_denominators(tokens));
    CHECK(torch::allclose(gradient, -shares * terms.weights.on_tokens * slope, 1e-6, 1e-15));
    if (name != "cispo") {
      const torch::Tensor masked = terms.surrogate.side != 0;
      CHECK(masked.sum().item<int>() >= 3);
      CHECK((gradient.masked_select(masked) == 0).all().item<bool>());
    }
  }
}

TEST_CASE("KL estimators over a vocabulary: k2, k3+ and unbiased have the gradient of KL(π‖ref), k3 of its reverse") {
  const torch::Tensor logits = tensor({0.3, -1.2, 2.0, 0.7, -0.4}), reference = tensor({1.1, 0.2, -0.9, 0.1, -2.5});
  const torch::Tensor log_ref = torch::log_softmax(reference, 0);
  const auto gradient_by_logits = [&](const std::function<torch::Tensor(const torch::Tensor&)>& of_log_probs) {
    const torch::Tensor x = logits.clone().set_requires_grad(true);
    return torch::autograd::grad({of_log_probs(torch::log_softmax(x, 0))}, {x})[0];
  };
  // Uses every token of the vocabulary once, weighted by its sampling probability.
  const auto expected = [&](const char* word) {
    return gradient_by_logits([&](const torch::Tensor& log_p) {
      const torch::Tensor drawn = log_p.detach();
      const ObjectiveTokens tokens{
          log_p, {}, drawn, drawn, log_ref, {}, learner::Sequences(torch::zeros({5}, torch::kInt64))};
      return (drawn.exp() * learner::kl_penalty(tokens, estimator(word))).sum();
    });
  };
  // `unbiased` holds also if another policy samples, such as a quantized sampler.
  const torch::Tensor sampler = torch::log_softmax(logits + tensor({0.2, -0.1, 0.05, 0.3, -0.25}), 0);
  const torch::Tensor drawn_by_sampler = gradient_by_logits([&](const torch::Tensor& log_p) {
    const ObjectiveTokens tokens{
        log_p, {}, log_p.detach(), sampler, log_ref, {}, learner::Sequences(torch::zeros({5}, torch::kInt64))};
    return (sampler.exp() * learner::kl_penalty(tokens, estimator("unbiased"))).sum();
  });
  const torch::Tensor forward =
      gradient_by_logits([&](const torch::Tensor& log_p) { return (log_p.exp() * (log_p - log_ref)).sum(); });
  const torch::Tensor reverse =
      gradient_by_logits([&](const torch::Tensor& log_p) { return (log_ref.exp() * (log_ref - log_p)).sum(); });
  CHECK(forward.abs().max().item<double>() > 0.1);
  for (const char* word : {"k2", "k3+", "unbiased"}) CHECK(torch::allclose(expected(word), forward, 1e-6, 1e-9));
  CHECK(torch::allclose(drawn_by_sampler, forward, 1e-6, 1e-9));
  CHECK(torch::allclose(expected("k3"), reverse, 1e-6, 1e-9));
  CHECK_FALSE(torch::allclose(forward, reverse, 1e-2, 1e-2));
}

TEST_CASE("KL estimators: clamps do not stop the gradient") {
  for (const double ratio : {1.0, 2.61, 2.62, 4.48, 15.0, 21.0, 60.0}) {
    for (const double sign : {-1.0, 1.0}) {
      CAPTURE(ratio, sign);
      const torch::Tensor log_p = tensor({-70}).set_requires_grad(true);
      const ObjectiveTokens tokens{log_p,
                                   {},
                                   log_p.detach(),
                                   log_p.detach(),
                                   tensor({-70 - sign * ratio}),
                                   {},
                                   learner::Sequences(torch::zeros({1}, torch::kInt64))};
      for (const char* word : {"k2", "k3", "k3+", "unbiased"}) {
        const double slope =
            torch::autograd::grad({learner::kl_penalty(tokens, estimator(word)).sum()}, {log_p})[0].item<double>();
        CHECK(slope * sign > 0.5);
        CHECK(std::fabs(slope) <= 21);
      }
    }
  }
}

TEST_CASE("corrections: without a gap none changes anything") {
  for (const std::string& name : kLosses) {
    const bool narrow = name == "gspo" || name == "tbpo";
    ObjectiveTokens tokens = random_tokens(3, {4, 1, 6, 3}, narrow ? 3e-4 : 0.3, 0);
    const auto solve = [&](const std::string& method, bool acr) {
      ObjectiveSettings how = settings(name, method);
      how.correction.acr = acr;
      const Objective terms = learner::objective(tokens, how, own_denominators(tokens));
      return std::pair{terms.total.detach(), torch::autograd::grad({terms.total}, {tokens.log_probs})[0]};
    };
    const auto [want, want_gradient] = solve("none", false);
    for (const std::string& method : kMethods) {
      if (!is_defined(name, method)) continue;
      CAPTURE(name, method);
      const auto [got, gradient] = solve(method, method == "tis" && !narrow);
      CHECK(torch::allclose(got, want, 1e-13, 1e-15));
      CHECK(torch::allclose(gradient, want_gradient, 1e-13, 1e-15));
    }
  }
}

TEST_CASE("ACR: differs from TIS exactly where A > 0, rho > C and R > 1 + eps_h") {
  constexpr double kC = 2, kHigh = 0.2;
  ObjectiveTokens tokens = random_tokens(11, std::vector<int>(40, 10), 0.4, 0.8);
  ObjectiveSettings tis = settings("grpo", "tis"), acr = tis;
  acr.correction.acr = true;
  const Objective with = learner::objective(tokens, acr, own_denominators(tokens));
  const Objective without = learner::objective(tokens, tis, own_denominators(tokens));
  const torch::Tensor rho = (tokens.old_log_probs - tokens.sampler_log_probs).exp();
  const torch::Tensor ratio = (tokens.log_probs.detach() - tokens.old_log_probs).exp();
  const torch::Tensor where = (tokens.advantages > 0) & (rho > kC) & (ratio > 1 + kHigh);
  REQUIRE(where.sum().item<int>() >= 10);
  CHECK(torch::equal((with.surrogate.objective - without.surrogate.objective).detach() != 0, where));
  const torch::Tensor moved = gradient_of(tokens, acr) != gradient_of(tokens, tis);
  CHECK(torch::equal(moved, where & (ratio < (1 + kHigh) * (rho / kC))));
  CHECK(moved.sum().item<int>() < where.sum().item<int>());  // some are above the raised bound as well
}

TEST_CASE("TBPO: the gradient is exactly zero outside its bands, A >= 0 being bounded only above") {
  const ObjectiveSettings how = settings("tbpo", "tbpo");
  for (const double advantage : {1.5, 0.0, -1.5}) {
    for (const double log_r : {-0.5, -3.1e-4, -2.9e-4, 0.0, 3.9e-4, 4.1e-4, 6.9e-4, 7.1e-4, 0.5}) {
      CAPTURE(advantage, log_r);
      ObjectiveTokens tokens = random_tokens(1, {5}, 0, 0.1);
      tokens.old_log_probs = tokens.log_probs.detach() - log_r;
      tokens.advantages = torch::full_like(tokens.old_log_probs, advantage);
      const double r = std::exp(log_r);
      const bool teaches = advantage > 0 ? r <= 1 + 4e-4 : advantage < 0 && r >= 1 - 3e-4 && r <= 1 + 7e-4;
      CHECK(torch::equal(gradient_of(tokens, how) != 0, torch::full({5}, teaches)));
    }
  }
}

TEST_CASE("GSPO: both forms have equal values, and equal gradients for equal weights") {
  ObjectiveTokens tokens = random_tokens(5, {4, 7, 1, 3}, 3e-4, 0.5);
  ObjectiveSettings sequence = settings("gspo", "mis_prod"), token = sequence;
  token.surrogate.token_form = true;
  CHECK(torch::allclose(gradient_of(tokens, token), gradient_of(tokens, sequence), 1e-12, 0));
  CHECK(torch::allclose(learner::objective(tokens, token, own_denominators(tokens)).total,
                        learner::objective(tokens, sequence, own_denominators(tokens)).total, 1e-12, 0));
  CHECK(settings("gspo", "tis").surrogate.token_form);
  CHECK_FALSE(settings("gspo", "mis_geo").surrogate.token_form);
}

TEST_CASE("corrections: no gradient flows through them") {
  ObjectiveTokens tokens = random_tokens(5, {4, 7}, 0.1, 0.5);
  tokens.old_log_probs = tokens.log_probs.detach().clone().set_requires_grad(true);
  for (const std::string& method : kMethods) {
    CAPTURE(method);
    const Objective terms = learner::objective(tokens, settings("grpo", method), own_denominators(tokens));
    CHECK_FALSE(terms.weights.on_tokens.requires_grad());
  }
}

}  // namespace qrl

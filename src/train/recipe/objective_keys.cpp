#include <optional>
#include <string>

#include "learner/keys.h"
#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

using namespace config;
using enum config::OnResume;

constexpr std::int64_t kMaxDraws = 1'048'576;

/// Adds those params of losses and corrections whose keys are in `section`.
void add_params_of_objective(config::Keys& keys, const std::string& section, bool nested, const Catalog& catalog) {
  add_params(keys, fixed, section, nested, catalog.losses, "algorithm.name", Access(&Recipe::own));
  add_params(keys, fixed, section, nested, catalog.corrections, "rollout_correction.method", Access(&Recipe::own));
}

void add_estimator(config::Keys& keys, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(keys, "algorithm", &Recipe::algorithm);
  algorithm.behind("algorithm.loss_agg_mode");
  const Choices<rollout::AdvantageEstimator>& estimators = catalog.estimators;
  if (!estimators.all().empty()) {
    algorithm.add(fixed, "adv_estimator", &A::adv_estimator, option_of(estimators),
                  "how advantages are computed from rewards");
  }
  algorithm.add(fixed, "norm_adv_by_std", &A::norm_adv_by_std, "divide advantages by their group's standard deviation")
      .unset_by(catalog.losses);
}

void add_selection(config::Keys& keys) {
  using A = AlgorithmRecipe;
  Section algorithm(keys, "algorithm", &Recipe::algorithm);
  algorithm.behind("algorithm.norm_adv_by_std");
  algorithm.add(fixed, "positive_only", &A::positive_only, "set negative advantages to 0");
  algorithm
      .add(fixed, "reward_coef", &A::reward_coef, real(kAtLeast0),
           "with a teacher: weight of the reward's advantage; 0: distillation only")
      .only_with("algorithm.teacher.path", "set");
  using T = decltype(A::teacher);
  auto teacher = algorithm.inner("teacher", &A::teacher);
  teacher.behind("algorithm.reward_coef");
  teacher.add(fixed, "path", &T::path, input_path(),
              "teacher for distillation, a model folder or checkpoint with the policy's tokenizer; lowers a token's "
              "advantage by log pi_old - log pi_teacher",
              "no teacher");
  teacher.only_with("algorithm.teacher.path", "set");
  teacher.add(fixed, "weights", &T::weights,
              "format of the teacher's linear layers; bf16 and fp32 compute in model.dtype");
  teacher.add(fixed, "coef", &T::coef, real(kPositive), "weight of log pi_old - log pi_teacher");
}

void add_algorithm(config::Keys& keys, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(keys, "algorithm", &Recipe::algorithm);
  algorithm.add(fixed, "name", &A::name, option_of(catalog.losses), "policy loss");
  learner::add_algorithm_keys(algorithm.of<learner::AlgorithmOptions>(), catalog.losses);
  keys.at("algorithm.bound_moved_only").condition = {
      "algorithm.name", "dppo_tv or dppo_kl, or rollout_correction.behaviour_in_ratio", [](const Recipe& recipe) {
        const Option* loss = recipe.algorithm.name.option();
        return recipe.rollout_correction.behaviour_in_ratio || (loss != nullptr && loss->around_sampler);
      }};
  add_estimator(keys, catalog);
  add_selection(keys);
  algorithm.behind("algorithm.kl_loss_coef")
      .add(allow_change, "kl_loss_type", &A::kl_loss_type, option_of(catalog.kl_estimators),
           "estimator of that KL; k1 is refused")
      .only_with("algorithm.kl_loss_coef", "above 0");
  algorithm.behind("algorithm.entropy_coef");
  algorithm.add(fixed, "mask_truncated", &A::mask_truncated,
                "exclude responses cut at data.max_response_length from loss and denominators; the group's mean counts "
                "their reward");
  algorithm.add(fixed, "router_replay", &A::router_replay,
                "experts in the learner's forward pass: its own choice (none), the sampler's (rollout), or those of "
                "the old log-probs' pass (old)");
  using G = decltype(A::filter_groups);
  auto filter = algorithm.inner("filter_groups", &A::filter_groups);
  filter.add(
      allow_change, "enable", &G::enable,
      "dynamic sampling: drop groups with equal scores, and draw prompts until data.train_batch_size groups remain");
  filter.only_with("algorithm.filter_groups.enable", "true");
  filter.add(allow_change, "metric", &G::metric,
             "what must differ within a group: score, acc, or one of the verifier's scores by name");
  filter.add(allow_change, "max_num_gen_batches", &G::max_num_gen_batches, integer(1, kMaxDraws),
             "maximum draws per step");
  filter.add(allow_change, "on_exhausted", &G::on_exhausted,
             "after the last draw: stop with exit code 3, or train on the groups found");

  add_params_of_objective(keys, "algorithm", false, catalog);
  add_params_of_objective(keys, "algorithm", true, catalog);
}

void add_correction(config::Keys& keys, const Catalog& catalog) {
  using C = CorrectionRecipe;
  Section correction(keys, "rollout_correction", &Recipe::rollout_correction);
  correction.add(fixed, "method", &C::method, option_of(catalog.corrections),
                 "importance weight that corrects the gap between sampler and learner");
  learner::add_correction_keys(correction.of<learner::CorrectionOptions>(), catalog.corrections);
  add_params_of_objective(keys, "rollout_correction", false, catalog);
  learner::add_rejection_keys(correction.of<learner::CorrectionOptions>());
  add_params_of_objective(keys, "rollout_correction", true, catalog);
}

void add_gap_limit(config::Keys& keys) {
  using C = CorrectionRecipe;
  Section correction(keys, "rollout_correction", &Recipe::rollout_correction);
  correction.add(fixed, "gap_limit.k3_kl", &C::gap_limit, real(kPositive),
                 "maximum k3 KL between sampler and learner on a few fixed prompts, measured after each publish",
                 "none");
  correction
      .add(fixed, "gap_limit.action", &C::gap_action, "beyond gap_limit: stop with exit code 3, or warn and continue")
      .only_with("rollout_correction.gap_limit.k3_kl", "set");
}

}  // namespace

void add_objective(config::Keys& keys, const Catalog& catalog) {
  add_algorithm(keys, catalog);
  add_correction(keys, catalog);
  add_gap_limit(keys);
}

}  // namespace qrl::train

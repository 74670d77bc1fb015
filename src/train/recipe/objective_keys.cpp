#include <optional>
#include <string>

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
  algorithm.add(fixed, "positive_only", &A::positive_only, "set negative advantages to 0");
  algorithm
      .add(fixed, "reward_coef", &A::reward_coef, real(kAtLeast0),
           "with a teacher: weight of the reward's advantage; 0: distillation only")
      .only_with("algorithm.teacher.path", "set");
  using T = decltype(A::teacher);
  auto teacher = algorithm.inner("teacher", &A::teacher);
  teacher.add(fixed, "path", &T::path, input_path(),
              "teacher for distillation, a model folder or checkpoint with the policy's tokenizer; lowers a token's "
              "advantage by log pi_old - log pi_teacher",
              "no teacher");
  teacher.only_with("algorithm.teacher.path", "set");
  teacher.add(fixed, "weights", &T::weights,
              "format of the teacher's linear layers; bf16 and fp32 compute in model.dtype");
  teacher.add(fixed, "coef", &T::coef, real(kPositive), "weight of log pi_old - log pi_teacher");
  algorithm.add(fixed, "off_policy_mask_threshold", &A::off_policy_mask_threshold, real(kPositive),
                "mask a response with a negative advantage if its mean log mu/pi exceeds this (DeepSeek-V3.2)",
                "no mask");
  algorithm.add(fixed, "top_entropy_quantile", &A::top_entropy_quantile, real(kAbove0To1),
                "share of a mini-batch's tokens in the loss, those of highest entropy; 1: all");
  using V = decltype(A::clip_cov);
  auto clip_cov = algorithm.inner("clip_cov", &A::clip_cov);
  clip_cov.add(fixed, "ratio", &V::ratio, real(kFrom0To1),
               "Clip-Cov: share of tokens to exclude, among those whose covariance of advantage and log-prob is within "
               "the bounds; 0: off");
  clip_cov.only_with("algorithm.clip_cov.ratio", "above 0");
  clip_cov.add(fixed, "low", &V::low, "lower bound of the covariance")
      .needs("", "algorithm.clip_cov.high", "above algorithm.clip_cov.low", "no token would be excluded");
  clip_cov.add(fixed, "high", &V::high, "upper bound of the covariance");
}

void add_algorithm(config::Keys& keys, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(keys, "algorithm", &Recipe::algorithm);
  algorithm.add(fixed, "name", &A::name, option_of(catalog.losses), "policy loss");
  algorithm.add(fixed, "clip_ratio_low", &A::clip_ratio_low, real(kInside0To1), "ratios are clipped at 1 - this")
      .unset_by(catalog.losses);
  algorithm.add(fixed, "clip_ratio_high", &A::clip_ratio_high, real(kPositive), "ratios are clipped at 1 + this")
      .unset_by(catalog.losses);
  algorithm
      .add(fixed, "clip_ratio_c", &A::clip_ratio_c, real(kAbove1OrOff),
           "dual clip: maximum ratio of tokens with a negative advantage")
      .unset_by(catalog.losses);
  algorithm
      .add(fixed, "loss_agg_mode", &A::loss_agg_mode,
           "reduction of token losses over the mini-batch and all ranks; norm divides sums by data.max_response_length")
      .unset_by(catalog.losses);
  add_estimator(keys, catalog);
  add_selection(keys);
  algorithm.add(fixed, "kl_loss_coef", &A::kl_loss_coef, real(kAtLeast0),
                "weight of the KL to the initial model; 0: no reference model");
  algorithm
      .add(allow_change, "kl_loss_type", &A::kl_loss_type, option_of(catalog.kl_estimators),
           "estimator of that KL; k1 is refused")
      .only_with("algorithm.kl_loss_coef", "above 0");
  algorithm.add(allow_change, "entropy_coef", &A::entropy_coef, real(kAtLeast0), "weight of the entropy bonus");
  algorithm.add(fixed, "mask_truncated", &A::mask_truncated,
                "exclude responses cut at data.max_response_length from loss and denominators; the group's mean counts "
                "their reward");
  algorithm.add(fixed, "router_replay", &A::router_replay,
                "experts in the learner's forward pass: its own choice (none), the sampler's (rollout), or those of "
                "the old log-probs' pass (old)");
  algorithm
      .add(fixed, "bound_moved_only", &A::bound_moved_only,
           "bound only tokens that the step's updates moved, not those beyond the bound around the sampler before")
      .condition = {"algorithm.name", "dppo_tv or dppo_kl, or rollout_correction.behaviour_in_ratio",
                    [](const Recipe& recipe) {
                      const Option* loss = recipe.algorithm.name.option();
                      return recipe.rollout_correction.behaviour_in_ratio || (loss != nullptr && loss->around_sampler);
                    }};

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

void add_rejection(config::Keys& keys) {
  using C = CorrectionRecipe;
  Section correction(keys, "rollout_correction", &Recipe::rollout_correction);
  correction
      .add(fixed, "rs", &C::rs,
           "rejection in addition to weights: per token, or per sequence by sum, mean or maximum over its tokens")
      .needs("other than none", "rollout_correction.rs_threshold", "set",
             "set the value beyond which a token or sequence is rejected")
      .needs("seq_max", "rollout_correction.rs_stat", "k2 or k3", "the maximum log ratio does not bound the minimum");
  correction.only_with("rollout_correction.rs", "other than none");
  correction
      .add(fixed, "rs_stat", &C::rs_stat,
           "statistic of rho = pi_old/mu: k1: log rho, bounded as a ratio; k2: half its square; k3: rho - 1 - log rho")
      .needs("k1", "rollout_correction.rs_threshold", "above 1",
             "the ratio is 1 where sampler and learner agree, and must be kept");
  correction.add(fixed, "rs_threshold", &C::rs_threshold, real(kPositive), "maximum value to keep; required with rs",
                 "none");
  correction
      .add(fixed, "rs_threshold_low", &C::rs_threshold_low, real(kAbove0To1), "minimum ratio to keep (k1 only)",
           "1 / rs_threshold with k1")
      .needs("set", "rollout_correction.rs_stat", "k1", "k2 and k3 are never negative: delete it")
      .fill = [](Recipe& recipe) {
    C& own = recipe.rollout_correction;
    const bool has_k1 = own.rs != RsLevel::none && own.rs_stat == RsStat::k1 && own.rs_threshold;
    if (has_k1 && !own.rs_threshold_low) own.rs_threshold_low = 1 / *own.rs_threshold;
  };
  correction.only_with({});
  correction.add(fixed, "token_veto_threshold", &C::token_veto_threshold, real(kInside0To1),
                 "reject a response that has a token with rho below this", "no veto");
  correction
      .add(fixed, "batch_normalize", &C::batch_normalize,
           "divide weights by their mean over the mini-batch's tokens (or responses) before rejection")
      .only_with("rollout_correction.method", "other than none");
}

void add_correction(config::Keys& keys, const Catalog& catalog) {
  using C = CorrectionRecipe;
  Section correction(keys, "rollout_correction", &Recipe::rollout_correction);
  correction.add(fixed, "method", &C::method, option_of(catalog.corrections),
                 "importance weight that corrects the gap between sampler and learner");
  correction
      .add(fixed, "threshold", &C::threshold, real(kAtLeast1), "maximum weight of a token, or maximum ratio to keep")
      .unset_by(catalog.corrections);
  correction.add(fixed, "threshold_low", &C::threshold_low, real(kAbove0To1), "minimum ratio to keep")
      .unset_by(catalog.corrections)
      .needs("", "rollout_correction.threshold", "above rollout_correction.threshold_low", "every weight would be 0");
  add_params_of_objective(keys, "rollout_correction", false, catalog);
  add_rejection(keys);
  correction.add(fixed, "behaviour_in_ratio", &C::behaviour_in_ratio,
                 "clip the ratio to the sampler, not to the old policy; only without a correction, for experiments");
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

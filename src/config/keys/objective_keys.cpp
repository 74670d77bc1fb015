#include <optional>
#include <string>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"
#include "config/keys/sections.h"

namespace qrl::config {

namespace {

constexpr std::int64_t kMaxDraws = 1'048'576;

/// Adds own keys of losses and corrections, even in each other's section.
void add_own_of_objective(List& list, const std::string& section, bool nested, const Catalog& catalog) {
  add_own(list, section, nested, catalog.losses, "algorithm.name");
  add_own(list, section, nested, catalog.corrections, "rollout_correction.method");
}

void add_estimator(List& list, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  const Choices& estimators = catalog.estimators;
  if (!estimators.all.empty()) {
    algorithm.add("adv_estimator", &A::adv_estimator, word_of(estimators), "how rewards become advantages");
  }
  Key& by_std =
      algorithm.add("norm_adv_by_std", &A::norm_adv_by_std, boolean(), "divide advantages by their group's deviation")
          .unset_by("algorithm.name", catalog.losses);
  by_std.fill = [of_loss = by_std.fill, &estimators](Recipe& recipe) {
    const Choice* estimator = estimators.find(recipe.algorithm.adv_estimator);
    const bool has_one = estimator != nullptr && default_of(*estimator, "algorithm.norm_adv_by_std") == "false";
    if (has_one && !recipe.algorithm.norm_adv_by_std) recipe.algorithm.norm_adv_by_std = false;
    else of_loss(recipe);
  };
}

void add_selection(List& list) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  algorithm.add("positive_only", &A::positive_only, boolean(),
                "samples with a negative advantage teach nothing; they stay in the denominators");
  algorithm
      .add("reward_coef", &A::reward_coef, real(at_least_0()),
           "beside a teacher: weight of the reward's advantage; 0: distillation alone")
      .only_with("algorithm.teacher.path", "set");
  using T = TeacherRecipe;
  auto teacher = algorithm.inner("teacher", &A::teacher);
  teacher.add(
      "path", &T::path, unset_when_empty(input_path()),
      "model folder or checkpoint of a teacher with the policy's tokenizer: a token's advantage falls by what the "
      "policy likes it more than the teacher does",
      {"no teacher"});
  teacher.only_with("algorithm.teacher.path", "set");
  teacher.add("weights", &T::weights, weight_format(),
              "format of the teacher's linear layers; bf16 and fp32 compute in model.dtype");
  teacher.add("coef", &T::coef, real(positive()), "weight of log pi_old - log pi_teacher");
  algorithm.add(
      "off_policy_mask_threshold", &A::off_policy_mask_threshold, real(positive()),
      "a response with a negative advantage teaches nothing when the mean of log mu/pi over its tokens is above "
      "this (DeepSeek-V3.2)",
      {"no mask"});
  algorithm.add("top_entropy_quantile", &A::top_entropy_quantile, real(above_0_to_1()),
                "share of a mini-batch's tokens that teach: those of the highest entropy; 1: all");
  using V = ClipCovRecipe;
  auto clip_cov = algorithm.inner("clip_cov", &A::clip_cov);
  clip_cov.add("ratio", &V::ratio, real(from_0_to_1()),
               "share of a mini-batch's tokens that Clip-Cov leaves out, of those whose covariance of advantage and "
               "log-prob is within the bounds; 0: none");
  clip_cov.only_with("algorithm.clip_cov.ratio", "above 0");
  clip_cov.add("low", &V::low, real(any()), "lower bound of that covariance");
  clip_cov.add("high", &V::high, real(any()), "and its upper bound");
}

void add_algorithm(List& list, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  algorithm.add("name", &A::name, word_of(catalog.losses), "the loss");
  algorithm.add("clip_ratio_low", &A::clip_ratio_low, real(inside_0_to_1()), "ratios are clipped at 1 - this")
      .unset_by("algorithm.name", catalog.losses);
  algorithm.add("clip_ratio_high", &A::clip_ratio_high, real(positive()), "ratios are clipped at 1 + this")
      .unset_by("algorithm.name", catalog.losses);
  algorithm
      .add("clip_ratio_c", &A::clip_ratio_c, real(above_1_or_off()),
           "dual clip: with a negative advantage a token's ratio counts as this at most")
      .unset_by("algorithm.name", catalog.losses);
  algorithm
      .add("loss_agg_mode", &A::loss_agg_mode,
           choice<LossAggMode>({{"token-mean", LossAggMode::token_mean},
                                {"token-sum", LossAggMode::token_sum},
                                {"seq-mean-token-sum", LossAggMode::seq_mean_token_sum},
                                {"seq-mean-token-mean", LossAggMode::seq_mean_token_mean},
                                {"seq-mean-token-sum-norm", LossAggMode::seq_mean_token_sum_norm}}),
           "how tokens make one loss, over the whole mini-batch and all ranks; norm: sums are divided by "
           "data.max_response_length")
      .unset_by("algorithm.name", catalog.losses);
  add_estimator(list, catalog);
  add_selection(list);
  algorithm.add("kl_loss_coef", &A::kl_loss_coef, real(at_least_0()),
                "weight of the KL to the initial model; 0: no reference model");
  algorithm.add("kl_loss_type", &A::kl_loss_type, word_of(catalog.kl_estimators), "estimator of that KL; k1 is refused")
      .only_with("algorithm.kl_loss_coef", "above 0")
      .allow_change();
  algorithm.add("entropy_coef", &A::entropy_coef, real(at_least_0()), "weight of the entropy bonus").allow_change();
  algorithm.add(
      "mask_truncated", &A::mask_truncated, boolean(),
      "responses cut at data.max_response_length teach nothing and leave the denominators; their reward stays "
      "in the group's mean");
  algorithm.add("router_replay", &A::router_replay,
                choice<RouterReplay>(
                    {{"none", RouterReplay::none}, {"rollout", RouterReplay::rollout}, {"old", RouterReplay::old}}),
                "experts that the learner's forward pass uses in a mixture: its own choice; those that the sampler "
                "chose; or those of the pass that makes old log-probs");

  using G = FilterGroupsRecipe;
  auto filter = algorithm.inner("filter_groups", &A::filter_groups);
  filter.all(OnResume::allow_change);
  filter.add("enable", &G::enable, boolean(),
             "dynamic sampling: train on groups whose scores differ, draw more prompts until there are "
             "data.train_batch_size of them");
  filter.only_with("algorithm.filter_groups.enable", "true");
  filter.add("metric", &G::metric, text(),
             "what must differ in a group: score, the sum; acc, whether responses are correct; or one of the "
             "verifier's scores by its name");
  filter.add("max_num_gen_batches", &G::max_num_gen_batches, integer(1, kMaxDraws), "draws of a step");
  filter.add("on_exhausted", &G::on_exhausted,
             choice<OnExhausted>({{"error", OnExhausted::error}, {"train_partial", OnExhausted::train_partial}}),
             "after the last draw: end the run with exit code 3, or train on the groups there are");

  add_own_of_objective(list, "algorithm", false, catalog);
  add_own_of_objective(list, "algorithm", true, catalog);
}

void add_rejection(List& list) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction
      .add("rs", &C::rs,
           choice<RsLevel>({{"none", RsLevel::none},
                            {"token", RsLevel::token},
                            {"seq_sum", RsLevel::seq_sum},
                            {"seq_mean", RsLevel::seq_mean},
                            {"seq_max", RsLevel::seq_max}}),
           "rejection beside the weights: of tokens, or of sequences by the sum, mean or largest of their tokens")
      .needs("other than none", "rollout_correction.rs_threshold", "set",
             "say beyond which value a token or sequence is rejected")
      .needs("seq_max", "rollout_correction.rs_stat", "k2 or k3", "the largest log ratio says nothing of the smallest");
  correction
      .add("rs_stat", &C::rs_stat, choice<RsStat>({{"k1", RsStat::k1}, {"k2", RsStat::k2}, {"k3", RsStat::k3}}),
           "of rho = pi_old/mu: k1, log rho, bounded as a ratio; k2, half its square; k3, rho - 1 - log rho")
      .only_with("rollout_correction.rs", "other than none")
      .needs("k1", "rollout_correction.rs_threshold", "above 1",
             "where sampler and learner agree the ratio is 1, which must be kept");
  correction.add("rs_threshold", &C::rs_threshold, real(positive()), "largest that is kept; needed with rs", {"none"})
      .only_with("rollout_correction.rs", "other than none");
  correction
      .add("rs_threshold_low", &C::rs_threshold_low, real(above_0_to_1()), "of k1 the smallest ratio that is kept",
           {"with k1: 1 / rs_threshold",
            [](const Recipe& recipe) -> std::optional<double> {
              const C& own = recipe.rollout_correction;
              if (own.rs == RsLevel::none || own.rs_stat != RsStat::k1 || !own.rs_threshold) return std::nullopt;
              return 1 / *own.rs_threshold;
            }})
      .only_with("rollout_correction.rs", "other than none")
      .needs("set", "rollout_correction.rs_stat", "k1", "k2 and k3 are never negative: delete it");
  correction.add("token_veto_threshold", &C::token_veto_threshold, real(inside_0_to_1()),
                 "a response with one token whose rho is below this is rejected", {"no veto"});
  correction
      .add("batch_normalize", &C::batch_normalize, boolean(),
           "divide the weights by their mean over the mini-batch's tokens (responses, where the method weighs "
           "those), before rejection")
      .only_with("rollout_correction.method", "other than none");
}

void add_correction(List& list, const Catalog& catalog) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add("method", &C::method, word_of(catalog.corrections),
                 "weight of a token for the gap between sampler and learner");
  correction
      .add("threshold", &C::threshold, real(at_least_1()),
           "largest weight of a token, or largest ratio that is not rejected")
      .unset_by("rollout_correction.method", catalog.corrections);

  correction.add("threshold_low", &C::threshold_low, real(above_0_to_1()), "smallest ratio that is not rejected")
      .unset_by("rollout_correction.method", catalog.corrections);
  add_own_of_objective(list, "rollout_correction", false, catalog);
  add_rejection(list);
  correction.add("behaviour_in_ratio", &C::behaviour_in_ratio, boolean(),
                 "without a correction, for experiments: clip the ratio to the sampler instead of the ratio to the old "
                 "policy");
  add_own_of_objective(list, "rollout_correction", true, catalog);
}

void add_gap_limit(List& list) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add("gap_limit.k3_kl", &C::gap_limit, real(positive()),
                 "largest k3 KL between sampler and learner on a few fixed prompts, measured after every publish",
                 {"none"});
  correction
      .add("gap_limit.action", &C::gap_action,
           choice<GapAction>({{"stop", GapAction::stop}, {"warn", GapAction::warn}}),
           "beyond it: end the run with exit code 3, or say so and go on")
      .only_with("rollout_correction.gap_limit.k3_kl", "set");
}

}  // namespace

void add_objective(List& list, const Catalog& catalog) {
  add_algorithm(list, catalog);
  add_correction(list, catalog);
  add_gap_limit(list);
}

}  // namespace qrl::config

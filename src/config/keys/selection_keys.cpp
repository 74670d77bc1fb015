#include "config/keys/selection_keys.h"

#include <optional>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"

namespace qrl::config {

void add_estimator(std::vector<Key>& list, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  const Choices& estimators = catalog.estimators;
  if (!estimators.all.empty()) {
    algorithm.add("adv_estimator", &A::adv_estimator, word_of(estimators), "how rewards become advantages").reset =
        [word = estimators.standard](Recipe& recipe) { recipe.algorithm.adv_estimator = word; };
  }
  Key& by_std =
      algorithm.add("norm_adv_by_std", &A::norm_adv_by_std, boolean(), "divide advantages by their group's deviation");
  unset_by_choice(by_std, catalog.losses, [](const Recipe& recipe) { return recipe.algorithm.name; });
  by_std.fill = [of_loss = by_std.fill, &estimators](Recipe& recipe) {
    const Choice* estimator = estimators.find(recipe.algorithm.adv_estimator);
    const bool has_one = estimator != nullptr && default_of(*estimator, "algorithm.norm_adv_by_std") == "false";
    if (has_one && !recipe.algorithm.norm_adv_by_std) recipe.algorithm.norm_adv_by_std = false;
    else of_loss(recipe);
  };
}

void add_selection(std::vector<Key>& list) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  algorithm.add("positive_only", &A::positive_only, boolean(),
                "samples with a negative advantage teach nothing; they stay in the denominators");
  algorithm.add("reward_coef", &A::reward_coef, real(at_least_0()),
                "beside a teacher: weight of the reward's advantage; 0: distillation alone");
  using T = TeacherRecipe;
  auto teacher = algorithm.inner("teacher", &A::teacher);
  teacher.add(
      "path", &T::path, unset_when_empty(input_path()),
      "model folder or checkpoint of a teacher with the policy's tokenizer: a token's advantage falls by what the "
      "policy likes it more than the teacher does",
      {"no teacher"});
  teacher.add("weights", &T::weights,
              choice<WeightFormat>({{"fp32", WeightFormat::f32},
                                    {"bf16", WeightFormat::bf16},
                                    {"int8", WeightFormat::int8},
                                    {"fp8_e4m3", WeightFormat::fp8_e4m3},
                                    {"int4", WeightFormat::int4}}),
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
  clip_cov.add("low", &V::low, real(any()), "lower bound of that covariance");
  clip_cov.add("high", &V::high, real(any()), "and its upper bound");
}

void add_rejection(std::vector<Key>& list) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add(
      "rs", &C::rs,
      choice<RsLevel>({{"none", RsLevel::none},
                       {"token", RsLevel::token},
                       {"seq_sum", RsLevel::seq_sum},
                       {"seq_mean", RsLevel::seq_mean},
                       {"seq_max", RsLevel::seq_max}}),
      "rejection beside the weights: of tokens, or of sequences by the sum, mean or largest of their tokens");
  correction.add("rs_stat", &C::rs_stat, choice<RsStat>({{"k1", RsStat::k1}, {"k2", RsStat::k2}, {"k3", RsStat::k3}}),
                 "of rho = pi_old/mu: k1, log rho, bounded as a ratio; k2, half its square; k3, rho - 1 - log rho");
  correction.add("rs_threshold", &C::rs_threshold, real(positive()), "largest that is kept; needed with rs", {"none"});
  correction.add("rs_threshold_low", &C::rs_threshold_low, real(above_0_to_1()),
                 "of k1 the smallest ratio that is kept",
                 {"with k1: 1 / rs_threshold", [](const Recipe& recipe) -> std::optional<double> {
                    const C& own = recipe.rollout_correction;
                    if (own.rs == RsLevel::none || own.rs_stat != RsStat::k1 || !own.rs_threshold) return std::nullopt;
                    return 1 / *own.rs_threshold;
                  }});
  correction.add("token_veto_threshold", &C::token_veto_threshold, real(inside_0_to_1()),
                 "a response with one token whose rho is below this is rejected", {"no veto"});
  correction.add("batch_normalize", &C::batch_normalize, boolean(),
                 "divide the weights by their mean over the mini-batch's tokens (responses, where the method weighs "
                 "those), before rejection");
}

}  // namespace qrl::config

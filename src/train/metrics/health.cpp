#include "train/metrics/health.h"

#include <cmath>

#include "base/text.h"
#include "report/rules.h"
#include "train/recipe/automatic.h"

namespace qrl::train {

namespace {

// Thresholds chosen by this project.
constexpr double kNoAnswers = 0.95;
constexpr double kByChance = 0.01;  // warns if no response is correct, and chance makes that less probable
constexpr double kMeanOver = 5;     // length of the moving average, in steps
constexpr double kMostlyCut = 0.95, kRarelyCut = 0.5;
constexpr std::int64_t kTellEvery = 10;  // steps between warnings of a lasting symptom

constexpr const char* kCorrect = "reward/correct_fraction";
constexpr const char* kK3 = "mismatch/k3_kl";

}  // namespace

std::string gap_advice(const Recipe& recipe) {
  const QuantRecipe& quant = recipe.quant;
  const bool samples = samples_on_gpu(recipe), learns = learns_on_gpu(recipe);
  std::string advice;
  const auto add = [&](bool is_open, const std::string& what) {
    if (is_open) advice += (advice.empty() ? "" : ", or ") + what;
  };
  const bool is_low_bit = quant.weights != WeightFormat::bf16 && quant.weights != WeightFormat::f32;
  const bool is_merged = trains_adapters(recipe) && recipe.lora.publish == LoraPublish::merge;
  const bool may_match = quant.profile.empty() && !is_merged;
  const bool cuts = recipe.rollout.top_k != -1 || recipe.rollout.top_p < 1;
  const bool may_be_bitwise = samples == learns && !(samples && cuts) && may_match &&
                              quant.kv_cache != KvCache::fp8_e4m3 && quant.lm_head != HeadFormat::int8 &&
                              quant.noise.start == 0;
  add(!recipe.rollout.bitwise && may_be_bitwise,
      "set rollout.bitwise with quant.learner.forward low_bit, which has a gap of 0");
  const bool is_apart = is_low_bit && may_match && quant.learner.forward == learner::LearnerForward::bf16;
  if (learns && !samples) add(is_apart, "set quant.learner.forward: fake_quant");
  else add(is_apart && !may_be_bitwise, "set quant.learner.forward: low_bit");
  add(!recipe.rollout.bitwise && quant.kv_cache == KvCache::int8, "set quant.rollout.kv_cache: bf16");
  add(is_low_bit && quant.rotation != RotationKind::hadamard && quant.profile.empty(),
      "set quant.rollout.rotation: hadamard");
  add(is_low_bit, "use a quant.rollout.weights or kv_cache format with more bits");
  return advice;
}

std::string Health::look_at_groups(const Metrics& row) const {
  const double cut = report::value_of(row, "response_length/clip_ratio");
  if (recipe_.algorithm.mask_truncated && cut == 1)
    return "every response is cut at data.max_response_length, and algorithm.mask_truncated excludes these from the "
           "loss; raise data.max_response_length";
  if (!(report::value_of(row, "data/flat_group_fraction") >= report::rule("most groups are flat").step_bound))
    return {};
  const double correct = report::value_of(row, kCorrect),
               no_answer = report::value_of(row, "reward/no_answer_fraction");
  const std::string begin =
      "all groups are flat (data/flat_group_fraction 1: the samples of a prompt have the same reward), so the step has "
      "no learning signal; ";
  const double low = report::value_of(row, "critic/score/min"), high = report::value_of(row, "critic/score/max");
  if (measures_.training_by_score() || (correct == 0 && no_answer < kNoAnswers && high > 0)) {
    return begin +
           (low == high
                ? base::format("all responses have the score %.4g: ", high)
                : base::format("the scores go from %.4g to %.4g, but depend on the prompt alone: ", low, high)) +
           "use harder prompts if that is the highest score, else easier ones or a cold start (sft.steps), or raise "
           "rollout.n or rollout.temperature";
  }
  if (correct == 1) return begin + "all responses are correct: use harder prompts";
  if (no_answer >= kNoAnswers) {
    return begin + base::format(
                       "the verifier finds no answer in %.0f %% of the responses, %.0f %% are cut: look at "
                       "rollouts/step_N.jsonl, then at reward.verifier, reward.profile, data.prompt_template and "
                       "data.max_response_length",
                       100 * no_answer, 100 * cut);
  }
  if (correct == 0)
    return begin + "no response is correct: use easier prompts or a cold start (sft.steps), or raise rollout.n";
  return begin +
         "each prompt is solved always or never: use prompts of medium difficulty, or raise rollout.n or "
         "rollout.temperature";
}

/// Returns a warning if a policy that was often correct now fails. If a share p of responses is usually correct, all n
/// prompts of k steps fail with probability at most (1 − p)^(n·k).
std::string Health::look_at_fall(const Metrics& row) const {
  if (report::value_of(row, kCorrect) != 0) return {};
  const auto num_prompts = static_cast<double>(recipe_.data.train_batch_size * (num_wrong_steps_ + 1));
  const double cut = report::value_of(row, "response_length/clip_ratio");
  constexpr const char* kCause =
      "the usual cause is too large an update; lower optim.lr (%g) and resume from an earlier checkpoint";
  if (!measures_.training_by_score() && std::pow(1 - usual_correct_, num_prompts) < kByChance) {
    return base::format("no response is correct any more (%s 0, previously %.3f): ", kCorrect, usual_correct_) +
           base::format(kCause, recipe_.optim.lr);
  }
  if (cut >= kMostlyCut && least_cut_ <= kRarelyCut) {
    return base::format("most responses are cut now (response_length/clip_ratio %.2f, previously as low as %.2f): ",
                        cut, least_cut_) +
           base::format(kCause, recipe_.optim.lr);
  }
  return {};
}

std::string Health::look(Symptom symptom, const Metrics& row) const {
  const double k3 = report::value_of(row, kK3);
  switch (symptom) {
    case fell_to_0:
      return look_at_fall(row);
    case flat:
      return look_at_groups(row);
    case dropped: {
      const double share = report::value_of(row, "mismatch/dropped_fraction");
      if (!(share > report::rule("the correction drops most tokens").step_bound)) return {};
      const CorrectionRecipe& correction = recipe_.rollout_correction;
      return base::format(
          "rollout_correction.method %s drops %.0f %% of the tokens (mismatch/dropped_fraction; k3 KL %.2g): its "
          "bounds are too narrow for the gap between sampler and learner; widen rollout_correction.threshold (%g), or "
          "use a method that caps weights or a quant.rollout.weights format with more bits",
          correction.method.word().c_str(), 100 * share, k3, correction.threshold.value_or(0));
    }
    case masked: {
      constexpr const char* kMasked = "mismatch/masked_at_start_fraction";
      const report::Rule& rule = report::rule("tokens are masked before any update");
      const double share = report::value_of(row, kMasked);
      if (!(share > rule.step_bound)) return {};
      return base::format("%s masks %.1f %% of the tokens before any update (%s, k3 KL %.2g): ",
                          recipe_.rollout_correction.behaviour_in_ratio ? "rollout_correction.behaviour_in_ratio"
                                                                        : recipe_.algorithm.name.word().c_str(),
                          100 * share, kMasked, k3) +
             std::string(rule.advice);
    }
    case gap:
      if (!(k3 > report::rule("sampler and learner are far apart").step_bound)) return {};
      return base::format(
                 "sampler and learner are far apart (%s %.2g, usually below %g): the samples come from another policy "
                 "than "
                 "the one that learns; ",
                 kK3, k3, report::rule("sampler and learner are far apart").bound) +
             (gap_advice(recipe_).empty() ? "" : gap_advice(recipe_) + ", or ") +
             base::format("lower optim.lr (%g)", recipe_.optim.lr);
    case not_finite:
      // A step with gradient norm 0 had no tokens to learn from, so it has no KL.
      if (std::isfinite(k3) || report::value_of(row, "actor/grad_norm") == 0) return {};
      return base::format(
          "%s is not finite: log-probs overflow; lower optim.lr (%g), set optim.grad_clip, and resume from an earlier "
          "checkpoint",
          kK3, recipe_.optim.lr);
    case kNumSymptoms:
      break;
  }
  return {};
}

std::vector<std::string> Health::observe(std::int64_t step, const Metrics& row) {
  std::vector<std::string> warnings;
  measures_.add(row);
  if (std::isnan(report::value_of(row, kCorrect))) return warnings;  // the row has only held-out scores
  ++num_steps_;
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    const std::string text = look(static_cast<Symptom>(i), row);
    if (text.empty()) continue;
    Course& course = courses_[i];
    if (course.num_steps++ == 0) course.first = step;
    // After fell_to_0, flat groups get no warning of their own: the wrong responses explain them.
    const bool explained = i == flat && courses_[fell_to_0].num_steps > 0 && report::value_of(row, kCorrect) == 0;
    if (explained || (course.last_told > 0 && step - course.last_told < kTellEvery)) continue;
    course.last_told = step;
    warnings.push_back("step " + std::to_string(step) + ": " + text);
  }
  const double correct = report::value_of(row, kCorrect), cut = report::value_of(row, "response_length/clip_ratio");
  num_wrong_steps_ = correct > 0 ? 0 : num_wrong_steps_ + 1;
  if (correct > 0)
    usual_correct_ = usual_correct_ == 0 ? correct : usual_correct_ + (correct - usual_correct_) / kMeanOver;
  if (cut < least_cut_) least_cut_ = cut;
  return warnings;
}

std::string Health::summary() const {
  static constexpr std::array<const char*, kNumSymptoms> kNames = {
      "responses all wrong or mostly cut",     "all groups flat",
      "most tokens dropped by the correction", "tokens masked before any update",
      "sampler and learner far apart",         "k3 KL not finite"};
  std::string text;
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    if (courses_[i].num_steps == 0) continue;
    text += (text.empty() ? "" : "; ") + std::string(kNames[i]) + " in " + std::to_string(courses_[i].num_steps) +
            " of " + std::to_string(num_steps_) + " steps, first in step " + std::to_string(courses_[i].first);
  }
  return text;
}

}  // namespace qrl::train

#include "train/step/weight_publisher.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/step/gap_probe.h"
#include "train/step/quant_audit.h"

namespace qrl::train {

double gain_noise_sigma(const config::GainNoiseRecipe& noise, std::int64_t steps_done, std::int64_t total_steps) {
  if (noise.start == 0) return 0;
  const std::int64_t stage =
      std::min(steps_done * noise.stages / std::max(total_steps, std::int64_t{1}), noise.stages - 1);
  if (stage == 0) return 0;
  const double place = static_cast<double>(stage - 1) / static_cast<double>(noise.stages - 2);
  return noise.start * std::pow(noise.end / noise.start, place);
}

WeightPublisher::WeightPublisher(const RunContext& run, const RunState& state, learner::Learner& learner,
                                 Sampler& sampler, QuantizerState& quantizer)
    : run_(run), state_(state), learner_(learner), sampler_(sampler), quantizer_(quantizer) {}

void WeightPublisher::begin() {
  sampler_.snapshot.use_profile(quantizer_.profile);
  publish(state_.step);
  write_audit();
}

void WeightPublisher::publish_weights() {
  learner_.publish(sampler_.snapshot, state_.policy_version, sampler_.decoder.device_weights());
}

void WeightPublisher::publish_for_learner() {
  if (run_.recipe().quant.learner_forward != config::LearnerForward::bf16) publish_weights();
}

void WeightPublisher::publish(std::int64_t steps_done) {
  const config::TrainerRecipe& trainer = run_.recipe().trainer;
  noise_sigma_ = gain_noise_sigma(run_.recipe().quant.noise, steps_done, trainer.total_training_steps);
  sampler_.snapshot.use_gain_noise({trainer.seed, noise_sigma_});
  publish_weights();
  load_published(sampler_,
                 calibration_prompts(run_.plan.prompts, run_.recipe().trainer.seed,
                                     static_cast<std::uint64_t>(state_.prompts_drawn)),
                 run_.recipe().quant, quantizer_);
}

void WeightPublisher::see(const StepGroups& groups) {
  see_responses(groups.rollouts, static_cast<std::int32_t>(run_.recipe().rollout.n), groups.places, run_.recipe().quant,
                quantizer_, run_.world);
}

Metrics WeightPublisher::calibration() const {
  const config::QuantRecipe& quant = run_.recipe().quant;
  Metrics metrics;
  if (quant.noise.start > 0) metrics["quant/gain_noise_std"] = noise_sigma_;
  if (kv_format(quant) == quant::KvFormat::fp8_e4m3 && quant.kv_when != config::CalibrateKv::once &&
      !config::samples_on_gpu(run_.recipe()))
    metrics["quant/kv_saturated_fraction"] = sampler_.decoder.kv_scales().saturated_fraction;
  return metrics;
}

Metrics WeightPublisher::probe() {
  const config::Recipe& recipe = run_.recipe();
  return probe_gap(sampler_, learner_, probe_requests(run_.plan.prompts, recipe.trainer.seed), recipe,
                   run_.plan.train_sampling);
}

void WeightPublisher::write_audit() const {
  const std::vector<std::string> errors = format_error_report(learner_, sampler_.decoder.snapshot(), run_.world);
  if (run_.folder == nullptr) return;
  const std::vector<std::string> audit = quant_audit(learner_, sampler_.decoder.snapshot());
  std::string text;
  for (const std::string& line : audit) text += line + "\n";
  text += "\n";
  for (const std::string& line : errors) text += line + "\n";
  state::replace_file(run_.folder->path() / "quant_audit.txt", text);
  base::log_info(audit_summary(audit));
}

}  // namespace qrl::train

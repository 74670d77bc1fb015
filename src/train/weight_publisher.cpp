#include "train/weight_publisher.h"

#include "base/log.h"
#include "train/gap_probe.h"
#include "train/quant_audit.h"

namespace qrl::train {

WeightPublisher::WeightPublisher(const RunSetup& setup, const RunState& state, learner::Learner& learner,
                                 Sampler& sampler, QuantizerState& quantizer)
    : setup_(setup), state_(state), learner_(learner), sampler_(sampler), quantizer_(quantizer) {}

void WeightPublisher::begin() {
  sampler_.snapshot.use_profile(quantizer_.profile);
  publish();
  write_audit();
}

void WeightPublisher::publish_weights() {
  learner_.publish(sampler_.snapshot, state_.policy_version, sampler_.decoder.device_weights());
}

void WeightPublisher::publish_for_learner() {
  if (setup_.recipe.quant.learner_forward != config::LearnerForward::bf16) publish_weights();
}

void WeightPublisher::publish() {
  publish_weights();
  load_published(
      sampler_,
      calibration_prompts(setup_.prompts, setup_.recipe.trainer.seed, static_cast<std::uint64_t>(state_.prompts_drawn)),
      setup_.recipe.quant, quantizer_);
}

void WeightPublisher::see(const StepGroups& groups) {
  see_responses(groups.rollouts, static_cast<std::int32_t>(setup_.recipe.rollout.n), groups.places, setup_.recipe.quant,
                quantizer_, setup_.world);
}

Metrics WeightPublisher::calibration() const {
  const config::QuantRecipe& quant = setup_.recipe.quant;
  if (kv_format(quant) != quant::KvFormat::fp8_e4m3 || quant.kv_when == config::CalibrateKv::once ||
      config::samples_on_gpu(setup_.recipe))
    return {};
  return {{"quant/kv_saturated_fraction", sampler_.decoder.kv_scales().saturated_fraction}};
}

Metrics WeightPublisher::probe() {
  const config::Recipe& recipe = setup_.recipe;
  return probe_gap(sampler_, learner_, probe_requests(setup_.prompts, recipe.trainer.seed), recipe,
                   train_sampling(recipe, setup_.policy.config, setup_.policy.tokenizer));
}

void WeightPublisher::write_audit() const {
  const std::vector<std::string> errors = format_error_report(learner_, sampler_.decoder.snapshot(), setup_.world);
  if (setup_.folder == nullptr) return;
  const std::vector<std::string> audit = quant_audit(learner_, sampler_.decoder.snapshot());
  std::string text;
  for (const std::string& line : audit) text += line + "\n";
  text += "\n";
  for (const std::string& line : errors) text += line + "\n";
  state::replace_file(setup_.folder->path() / "quant_audit.txt", text);
  base::log_info(audit_summary(audit));
}

}  // namespace qrl::train

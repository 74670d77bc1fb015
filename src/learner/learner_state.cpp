#include "learner/learner_state.h"

#include "learner/learner_parts.h"

namespace qrl::learner {

model::WeightViews LearnerState::masters() const { return parts_.parameters.named().masters(); }

model::WeightViews LearnerState::moments() const { return parts_.parameters.named().moments(); }

model::WeightViews LearnerState::gradients() const {
  parts_.require_trainable();
  parts_.finish_micro_batch();
  parts_.sums.rotate_back();
  return parts_.parameters.named().gradients();
}

state::StagedRead LearnerState::staged_read() const { return parts_.parameters.named().staged_read(); }

base::Buffer LearnerState::master(const std::string& name) const {
  if (!parts_.options.lora.enabled()) return parts_.parameters.named().master(name);
  for (const model::WeightSpec& spec : model::weight_specs(parts_.config)) {
    if (spec.name != name) continue;
    base::Buffer values(base::DType::f32, spec.shape);
    parts_.base.read(spec, values.as<float>());
    return values;
  }
  return {};
}

model::WeightSource LearnerState::all_masters() const {
  const model::LoraConfig& lora = parts_.options.lora;
  if (!lora.enabled()) return parts_.trained_masters();
  return model::merged_weights(parts_.config, parts_.base, lora, parts_.trained_masters());
}

void LearnerState::restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
                           std::int64_t num_updates) {
  const torch::NoGradGuard no_grad;
  parts_.parameters.named().fill(fill);
  parts_.restart(num_updates);
}

void LearnerState::free_moments() { parts_.parameters.free_moments(); }

}  // namespace qrl::learner

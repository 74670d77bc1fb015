#include "train/run/reference.h"

#include <utility>

#include "train/plan/formats.h"
#include "train/plan/options.h"

namespace qrl::train {

namespace {

/// Replaces low_bit on a GPU by fake_quant, because low_bit would read the policy's tensors in the decoder.
config::LearnerForward reference_forward(const config::Recipe& recipe) {
  const config::LearnerForward forward = recipe.quant.learner_forward;
  const bool is_decoders = forward == config::LearnerForward::low_bit && config::learns_on_gpu(recipe);
  return is_decoders ? config::LearnerForward::fake_quant : forward;
}

learner::LearnerOptions reference_options(const RunPlan& plan) {
  const config::Recipe& recipe = plan.recipe();
  learner::LearnerOptions options = plan.learner;
  options.trainable = false;
  options.numerics.forward = reference_forward(recipe);
  options.numerics.backward = config::LearnerBackward::model_dtype;
  options.numerics.bitwise = recipe.rollout.bitwise && !config::learns_on_gpu(recipe);
  return options;
}

}  // namespace

Reference::Reference(const RunContext& run, const RunState& state, const std::filesystem::path& cold_start,
                     std::shared_ptr<const model::Int8Profile> profile)
    : learner_(run.plan.model, run.plan.policy.weights, reference_options(run.plan), run.world) {
  const config::Recipe& recipe = run.recipe();
  if (recipe.sft.steps > 0) restore_learner(cold_start, state, learner_, run.world);
  if (learner_.forward_mode() == config::LearnerForward::bf16) return;
  if (recipe.quant.uaq_scale != 1) learner_.apply_uaq(static_cast<float>(recipe.quant.uaq_scale));
  snapshot_.emplace(run.plan.model, sampler_formats(recipe));
  snapshot_->use_profile(std::move(profile));
  learner_.publish(*snapshot_, 0);
}

}  // namespace qrl::train

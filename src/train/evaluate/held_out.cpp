#include "train/evaluate/held_out.h"

#include "base/clock.h"
#include "train/evaluate/evaluate.h"
#include "train/metrics/generation_progress.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/signals.h"

namespace qrl::train {

bool HeldOutEvaluation::due_before_training() const {
  return !run_.plan.held_out.empty() && run_.recipe().eval.freq > 0 && run_.recipe().eval.before_train;
}

bool HeldOutEvaluation::due_after(std::int64_t step) const {
  const std::int64_t freq = run_.plan.held_out.empty() ? 0 : run_.recipe().eval.freq;
  return freq > 0 && (step % freq == 0 || step == run_.recipe().trainer.total_training_steps);
}

std::optional<Metrics> HeldOutEvaluation::run(std::int64_t step, PhaseSeconds& seconds) try {
  const config::Recipe& recipe = run_.recipe();
  const Policy& policy = run_.plan.policy;
  const base::ScopedTimer timer(seconds[Phase::evaluate]);
  std::string responses;
  const GenerationProgress progress(
      step == 0 ? "evaluation before step 1" : "evaluation after step " + std::to_string(step),
      num_responses(run_.plan.held_out, recipe.eval, run_.world), sampler_.decoder);
  const Metrics metrics =
      evaluate(sampler_.decoder, run_.plan.held_out, recipe, run_.plan.eval_sampling, policy.tokenizer,
               *run_.plan.verifier, run_.world, recipe.eval.dump > 0 ? &responses : nullptr, recipe.eval.dump);
  if (run_.folder != nullptr && recipe.eval.dump > 0) run_.folder->write_validation(step, responses);
  return metrics;
} catch (const Cancelled&) {
  return std::nullopt;
}

}  // namespace qrl::train

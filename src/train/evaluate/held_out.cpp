#include "train/evaluate/held_out.h"

#include "base/clock.h"
#include "train/evaluate/evaluate.h"
#include "train/metrics/generation_progress.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/signals.h"

namespace qrl::train {

bool HeldOutEvaluation::due_before_training() const {
  return !setup_.held_out.empty() && setup_.recipe.eval.freq > 0 && setup_.recipe.eval.before_train;
}

bool HeldOutEvaluation::due_after(std::int64_t step) const {
  const std::int64_t freq = setup_.held_out.empty() ? 0 : setup_.recipe.eval.freq;
  return freq > 0 && (step % freq == 0 || step == setup_.recipe.trainer.total_training_steps);
}

std::optional<Metrics> HeldOutEvaluation::run(std::int64_t step, PhaseSeconds& seconds) try {
  const config::Recipe& recipe = setup_.recipe;
  const Policy& policy = setup_.policy;
  const base::ScopedTimer timer(seconds[Phase::evaluate]);
  std::string responses;
  const GenerationProgress progress(
      step == 0 ? "evaluation before step 1" : "evaluation after step " + std::to_string(step),
      num_responses(setup_.held_out, recipe.eval, setup_.world), sampler_.decoder);
  const Metrics metrics = evaluate(
      sampler_.decoder, setup_.held_out, recipe, eval_sampling(recipe, policy.config, policy.tokenizer),
      policy.tokenizer, setup_.verifier, setup_.world, recipe.eval.dump > 0 ? &responses : nullptr, recipe.eval.dump);
  if (setup_.folder != nullptr && recipe.eval.dump > 0) setup_.folder->write_validation(step, responses);
  return metrics;
} catch (const Abandoned&) {
  return std::nullopt;
}

}  // namespace qrl::train

#include "train/run/training.h"

#include <utility>

#include "learner/objective/mini_batch.h"
#include "train/step/gap_probe.h"

namespace qrl::train {

Training::Training(const RunSetup& run_setup, RunState& run_state, learner::Learner& policy,
                   learner::Learner* reference, QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row,
                   Checkpointer& checkpoints)
    : setup(run_setup),
      state(run_state),
      learner(policy),
      checkpointer(checkpoints),
      loss(learner::policy_options(setup.recipe)),
      sampler(setup.policy.config, setup.recipe, setup.world, setup.recipe.data.max_prompt_length, {},
              &setup.policy.tokenizer),
      rollouts(setup, sampler, state.prompts_drawn),
      batches(setup, loss, learner, reference),
      updater(setup, loss, learner, state),
      publisher(setup, state, learner, sampler, quantizer),
      held_out(setup, sampler),
      recorder(setup, loss, state, metrics, std::move(unfinished_row)) {
  publisher.begin();
  check_gap(publisher.probe(), setup.recipe.rollout_correction);
}

void Training::train(RolloutSource& source) {
  Trainer(setup, state, learner, {source, batches, updater, publisher, held_out, recorder, checkpointer}).train();
}

}  // namespace qrl::train

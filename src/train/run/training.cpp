#include "train/run/training.h"

#include <utility>

#include "train/step/gap_probe.h"

namespace qrl::train {

Training::Training(const RunContext& context, RunState& run_state, learner::Learner& policy,
                   learner::Learner* reference, QuantizerState& quantizer, MetricsFile& metrics, Metrics unfinished_row,
                   Checkpointer& checkpoints)
    : run(context),
      state(run_state),
      learner(policy),
      checkpointer(checkpoints),
      sampler(run.plan.model, run.recipe(), run.world, run.recipe().data.max_prompt_length, {},
              &run.plan.policy.tokenizer),
      rollouts(run, sampler, state.prompts_drawn),
      batches(run, run.plan.loss, learner, reference),
      updater(run, run.plan.loss, learner, state),
      publisher(run, state, learner, sampler, quantizer),
      held_out(run, sampler),
      recorder(run, run.plan.loss, state, metrics, std::move(unfinished_row)) {
  publisher.begin();
  check_gap(publisher.probe(), run.recipe().rollout_correction);
}

void Training::train(RolloutSource& source) {
  Trainer(run, state, learner, {source, batches, updater, publisher, held_out, recorder, checkpointer}).train();
}

}  // namespace qrl::train

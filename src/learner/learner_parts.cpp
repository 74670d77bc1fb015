#include "learner/learner_parts.h"

#include <utility>

#include "base/error.h"

namespace qrl::learner {

namespace {

ParameterOptions parameter_options(const LearnerOptions& options, const ForwardEngine& engine,
                                   const dist::Collectives& world) {
  ParameterOptions how = engine.parameters();
  how.trainable = options.trainable;
  how.muon = options.optim.name == config::OptimName::muon;
  how.lora = options.lora;
  if (options.shard_optimizer && options.trainable) {
    how.rank = world.rank();
    how.shards = world.size();
  }
  return how;
}

/// Masters as a learner begins with them.
model::WeightSource first_masters(const model::ModelConfig& config, const model::WeightSource& initial,
                                  const LearnerOptions& options) {
  if (!options.lora.enabled()) return initial;
  QRL_INVARIANT(options.optim.name == config::OptimName::adamw && !options.shard_optimizer, "adapters",
                "AdamW on every rank", "another optimizer, or shards");
  model::check_lora(config, options.lora);
  const bool is_given = options.lora_initial.has_value();
  const model::WeightSource adapters =
      is_given ? *options.lora_initial : model::new_adapters(config, options.lora, options.lora_seed);
  return model::WeightSource(
      [initial, adapters, is_given, lora = options.lora](const model::WeightSpec& spec, float* to) {
        const bool is_trained =
            model::is_lora_name(spec.name) || (lora.train_norms && spec.kind == model::WeightKind::norm);
        // New adapters begin with the base's gains.
        if (is_trained && (is_given || model::is_lora_name(spec.name))) adapters.read(spec, to);
        else initial.read(spec, to);
      });
}

}  // namespace

LearnerParts::LearnerParts(const model::ModelConfig& config_in, const model::WeightSource& initial,
                           const LearnerOptions& options_in, dist::Collectives& world_in,
                           std::unique_ptr<ForwardEngine> engine_in)
    : config(config_in),
      options(options_in),
      world(world_in),
      base(initial),
      engine(std::move(engine_in)),
      parameters(config, first_masters(config, initial, options), parameter_options(options, *engine, world)),
      ranks(ranks_on(parameters.options().device, world)),
      sums(parameters, *ranks),
      packer(config, options.logprob_chunk_tokens) {
  parameters.refresh(*ranks);
}

void LearnerParts::require_trainable() const {
  QRL_INVARIANT(parameters.flat().trainable(), "learner", "a trainable one", "one made for scores alone");
}

void LearnerParts::restart(std::int64_t updates) {
  num_updates = updates;
  published = nullptr;
  clear_gradients(parameters);
  sums.restart();
  statistics = {};
  loss_is_finite = true;
  parameters.refresh(*ranks);
}

TargetScores LearnerParts::score(const PackedRows& rows, const TargetRows& targets, bool is_last,
                                 const PolicyWeights* policy) {
  const bool reads_snapshot = engine->reads_snapshot();
  QRL_INVARIANT(!reads_snapshot || holds_present_weights(), "learner", "a published snapshot of the present weights",
                "one of other weights, or none", "publish after each update");
  ForwardTask task{rows, targets, {}, policy};
  if (is_last) task.layer_done = sums.from_backward();
  return engine->score(parameters, reads_snapshot ? published : nullptr, task);
}

model::WeightSource LearnerParts::trained_masters() {
  return model::WeightSource(
      [this](const model::WeightSpec& spec, float* to) { parameters.read_master(spec, to, world); });
}

}  // namespace qrl::learner

#include "learner/weights/trainable_weights.h"

#include "base/error.h"
#include "base/log.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/nccl.h"

namespace qrl::learner {

namespace {

ParameterOptions with_options(ParameterOptions how, const LearnerOptions& options, const dist::Collectives& world) {
  how.trainable = options.trainable;
  how.muon = options.optim.name == config::OptimName::muon;
  how.lora = options.lora;
  if (options.shard_optimizer && options.trainable) {
    how.rank = world.rank();
    how.shards = world.size();
  }
  return how;
}

/// Returns ranks over NCCL (nccl.h) if every rank has its own GPU, else over host memory, with a warning. Collective.
std::unique_ptr<RankTensors> ranks_on(const torch::Device& device, dist::Collectives& world) {
  if (!device.is_cuda() || world.size() == 1) return ranks_through_host(world, device);
  if (share_gpus(device.index(), world)) {
    base::log_warning(
        "ranks share GPUs: what they exchange goes through host memory (as many processes as GPUs on each "
        "machine would use NCCL)");
    return ranks_through_host(world, device);
  }
  return ranks_by_nccl(world, device, "libnccl.so.2");
}

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
        // New adapters start with the base's norm gains.
        if (is_trained && (is_given || model::is_lora_name(spec.name))) adapters.read(spec, to);
        else initial.read(spec, to);
      });
}

}  // namespace

TrainableWeights::TrainableWeights(const model::ModelConfig& config, const model::WeightSource& initial,
                                   const LearnerOptions& options, ParameterOptions how, dist::Collectives& world)
    : world_(world),
      base_(initial),
      parameters_(config, first_masters(config, initial, options), with_options(std::move(how), options, world)),
      ranks_(ranks_on(parameters_.options().device, world)) {}

void TrainableWeights::require_trainable() const {
  QRL_INVARIANT(parameters_.flat().trainable(), "learner", "a trainable one", "one made for scores alone");
}

base::Buffer TrainableWeights::master(const std::string& name) const {
  if (!lora().enabled()) return parameters_.named().master(name);
  for (const model::WeightSpec& spec : model::weight_specs(config())) {
    if (spec.name != name) continue;
    base::Buffer values(base::DType::f32, spec.shape);
    base_.read(spec, values.as<float>());
    return values;
  }
  return {};
}

model::WeightSource TrainableWeights::trained_masters() {
  return model::WeightSource(
      [this](const model::WeightSpec& spec, float* to) { parameters_.read_master(spec, to, world_); });
}

model::WeightSource TrainableWeights::all_masters() {
  if (!lora().enabled()) return trained_masters();
  return model::merged_weights(config(), base_, lora(), trained_masters());
}

}  // namespace qrl::learner

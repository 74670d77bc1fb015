#include "learner/learner_parts.h"

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "learner/objective/policy_loss.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/nccl.h"

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

/// Makes the ranks for `device`: NCCL (nccl.h) if every rank has its own GPU, else host memory with a warning.
/// Collective.
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
        // New adapters start with the base's gains.
        if (is_trained && (is_given || model::is_lora_name(spec.name))) adapters.read(spec, to);
        else initial.read(spec, to);
      });
}

/// Checks that a bitwise learner's log-probs are the sampler's.
void require_same_bits(const Tensor& log_probs_M, const std::vector<std::int64_t>& rows,
                       const std::vector<float>& sampler_logprobs) {
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float sampled = sampler_logprobs[static_cast<std::size_t>(rows[i])];
    differ +=
        std::bit_cast<std::uint32_t>(log_probs_M.data_ptr<float>()[i]) == std::bit_cast<std::uint32_t>(sampled) ? 0 : 1;
  }
  QRL_INVARIANT(differ == 0, "rollout.bitwise", "the sampler's log-probs, bit for bit",
                std::to_string(differ) + " of " + std::to_string(rows.size()) + " tokens differ");
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
  in_flight.reset();
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

void LearnerParts::finish_micro_batch() {
  const std::unique_ptr<MicroBatchInFlight> micro = std::move(in_flight);
  if (micro == nullptr) return;
  const LossOptions& loss = micro->loss;
  const TargetScores& scores = micro->scores;
  scores.wait();
  if (engine->is_bitwise() && loss.at_sampling_weights)
    require_same_bits(scores.log_probs_M, micro->targets.rows, micro->batch.sampler_logprobs);
  Tensor total;
  if (loss.kind == LossKind::policy) {
    total = policy_loss(micro->batch, micro->targets.rows, scores, micro->counts, loss, statistics);
  } else {
    total = -scores.log_probs_M.to(torch::kFloat64).sum() / static_cast<double>(micro->counts.response_tokens);
    statistics.add_share("actor/sft_loss", total.item<double>());
  }
  if (!std::isfinite(total.item<double>())) {
    loss_is_finite = false;
    return;
  }
  sums.gather();
  total.backward();
}

model::WeightSource LearnerParts::trained_masters() {
  return model::WeightSource(
      [this](const model::WeightSpec& spec, float* to) { parameters.read_master(spec, to, world); });
}

}  // namespace qrl::learner

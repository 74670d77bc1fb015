// Owns the estimate of a run's device memory from recipe and model; allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory.h"
#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// Selects when a part is needed; with rollout.free_cache_engine the phases free memory for each other.
enum class MemoryPhase : std::uint8_t { always, sampling, learning };

struct MemoryPart {
  std::string name;
  double bytes = 0;
  bool is_exact = true;  ///< false: depends on the implementation, to about ten percent
  bool on_gpu = false;   ///< else in host memory
  MemoryPhase phase = MemoryPhase::always;
};

/// Sums a phase's parts of one memory.
double phase_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, MemoryPhase phase);
/// Sums one memory's exact, permanent parts: weights, gradients and moments.
double certain_bytes(const std::vector<MemoryPart>& parts, bool on_gpu);

/// Returns the largest sum of coexisting parts, on the GPU or in host memory. If phases take turns
/// (rollout.free_cache_engine), it has permanent parts and the larger phase, else all parts.
double peak_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, bool phases_take_turns);

/// Formats "12.50 GiB", or MiB below a GiB.
std::string memory_amount(double bytes);

/// Compares the needs of `num_here` processes with this machine's memory, not the GPU's. Throws an input error if exact
/// permanent parts exceed it. Returns a sentence if the plan exceeds it or what is free now, else "".
std::string check_memory(const std::vector<MemoryPart>& parts, bool phases_take_turns, int num_here,
                         const base::MemoryLimit& limit);

/// Returns the most tokens of a rank's update: whole groups of the longest samples.
std::int64_t tokens_of_update(const config::Recipe& recipe, int num_ranks);
/// Returns the most tokens of a trained micro-batch: actor.max_tokens_per_micro_batch, or fewer for smaller updates of
/// RL and cold start.
std::int64_t trained_tokens_at_once(const config::Recipe& recipe, int num_ranks);

/// Estimates the bytes that a micro-batch's token keeps for its backward pass.
double activation_bytes(const config::Recipe& recipe, const model::ModelConfig& config);

/// Estimates the memory of one of num_ranks. Each rank holds the whole model, minus what trainer.zero_stage 1 shards
/// (the largest share counts). Lists:
/// - the learner: fp32 masters and gradients, moments, packed lm_head, a KL term's reference;
///   with sharded masters also the copies that the forward pass reads;
/// - activations and logits of a micro-batch;
/// - the sampler's weights and KV cache; with rollout.device cuda a copy of the weights and the whole cache are on
///   the GPU;
/// - the program at its start on a CPU; a GPU's libraries take more.
///
/// With trainer.device cuda the learner's parts are on the GPU, and host memory holds a checkpoint's staging.
std::vector<MemoryPart> estimate_memory(const config::Recipe& recipe, const model::ModelConfig& config, int num_ranks);

}  // namespace qrl::train

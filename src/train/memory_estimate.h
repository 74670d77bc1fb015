// Owns what a run will need of a device's memory, worked out from recipe and model alone: nothing is allocated. Knows
// nothing of how it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory.h"
#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

/// Selects when a part is needed. With rollout.free_cache_engine one phase frees its memory for the other.
enum class MemoryPhase : std::uint8_t { always, sampling, learning };

struct MemoryPart {
  std::string name;
  double bytes = 0;
  bool is_exact = true;  ///< false: depends on the implementation, to some ten percent
  bool on_gpu = false;   ///< else of the machine's own memory
  MemoryPhase phase = MemoryPhase::always;
};

/// Sums the parts of one memory that a phase has.
double phase_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, MemoryPhase phase);
/// Sums the parts of one memory that are exact and always there: weights, gradients and moments.
double certain_bytes(const std::vector<MemoryPart>& parts, bool on_gpu);

/// Returns the largest sum of parts that exist at once, on the GPU or in the machine's own memory. If phases take turns
/// (rollout.free_cache_engine), that is the permanent parts and the larger phase, else all parts.
double peak_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, bool phases_take_turns);

/// Formats an amount: "12.50 GiB", in MiB below a GiB.
std::string memory_amount(double bytes);

/// Compares what `num_here` processes on this machine need with the memory that they can have. Throws an input error
/// when what they surely need (all exact parts that are always allocated) is more. Returns a sentence when the whole
/// plan exceeds this memory or what is free now, and "" when it fits. Does not check GPU memory.
std::string check_memory(const std::vector<MemoryPart>& parts, bool phases_take_turns, int num_here,
                         const base::MemoryLimit& limit);

/// Returns the most tokens of an update on one rank: whole groups of the longest samples.
std::int64_t tokens_of_update(const config::Recipe& recipe, int num_ranks);
/// Returns the most tokens of a micro-batch that is trained on. This is actor.max_tokens_per_micro_batch, or fewer if
/// the updates of RL and of a cold start are smaller.
std::int64_t trained_tokens_at_once(const config::Recipe& recipe, int num_ranks);

/// Estimates what a micro-batch's token leaves for its backward pass, in bytes.
double activation_bytes(const config::Recipe& recipe, const model::ModelConfig& config);

/// Estimates the memory of one of num_ranks. Ranks are data parallel: each holds the whole model, without what
/// trainer.zero_stage 1 shards (then the rank that keeps most counts). Lists these parts:
/// - the learner: fp32 masters and gradients, moments, lm_head as its kernels read it, and the reference of a KL term;
///   with sharded masters also the copies that the forward pass reads;
/// - activations and logits of a micro-batch;
/// - the sampler's weights and its KV cache; with rollout.device cuda a copy of the weights and the whole cache are on
///   the GPU;
/// - the program itself as it begins on a CPU: a GPU's libraries take more.
///
/// With trainer.device cuda the learner's parts are on the GPU, and host memory holds what a checkpoint is written
/// from.
std::vector<MemoryPart> estimate_memory(const config::Recipe& recipe, const model::ModelConfig& config, int num_ranks);

}  // namespace qrl::train

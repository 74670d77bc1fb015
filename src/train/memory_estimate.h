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

/// When a part is needed: with rollout.free_cache_engine what one phase has is given back for the other.
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

/// The most that is there at once, on the GPU or in the machine's own memory: all parts, or, where phases take turns
/// (rollout.free_cache_engine), what is always there and the larger phase.
double peak_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, bool phases_take_turns);

/// Text of an amount: "12.50 GiB", in MiB below a GiB.
std::string memory_amount(double bytes);

/// Compares what `num_here` processes on this machine need with the memory that they can have. Throws an input error
/// when what they surely need (all parts that are exact and always there) is more. Returns a sentence where the whole
/// plan is more than there is, or than is free now; "" where it fits. Of a GPU's memory it knows nothing.
std::string check_memory(const std::vector<MemoryPart>& parts, bool phases_take_turns, int num_here,
                         const base::MemoryLimit& limit);

/// Of one of num_ranks: data parallel, so each holds the whole model, without what trainer.zero_stage 1 shares out
/// (then of the rank that keeps most). Learner (fp32 masters and gradients, moments, copies that the forward pass reads
/// where masters are shared out, lm_head as its kernels read it, the reference of a KL term), activations and logits of
/// a micro-batch, the sampler's weights and its KV cache (with rollout.device cuda: a copy of the one and all of the
/// other on the GPU). With trainer.device cuda the learner's are on the GPU, and in host memory what a checkpoint is
/// written from. The program itself as it begins on a CPU: a GPU's libraries take more.
std::vector<MemoryPart> estimate_memory(const config::Recipe& recipe, const model::ModelConfig& config, int num_ranks);

}  // namespace qrl::train

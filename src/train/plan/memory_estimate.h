#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "model/config.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// States when a part is allocated. With rollout.free_cache_engine, each phase frees its memory for the other.
enum class MemoryPhase : std::uint8_t { always, sampling, learning };

struct MemoryPart {
  std::string name;
  double bytes = 0;
  bool is_exact = true;  ///< false: an estimate within about ten percent
  bool on_gpu = false;
  MemoryPhase phase = MemoryPhase::always;
};

double phase_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, MemoryPhase phase);
/// Returns the sum of parts that are exact and permanent: weights, gradients and moments.
double certain_bytes(const std::vector<MemoryPart>& parts, bool on_gpu);

/// Returns the largest sum of parts that coexist. With phases_take_turns (rollout.free_cache_engine), adds only the
/// larger phase to the permanent parts.
double peak_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, bool phases_take_turns);

/// Returns a text such as "12.50 GiB". Amounts below 1 GiB are in MiB.
std::string memory_amount(double bytes);

/// Compares the host memory of `num_here` processes with `limit`. Throws an input error if exact permanent parts exceed
/// `limit`. Returns a warning if the whole plan exceeds `limit` or the free memory, else "".
std::string check_memory(const std::vector<MemoryPart>& parts, bool phases_take_turns, int num_here,
                         const base::MemoryLimit& limit);

/// Returns the maximum number of tokens in a rank's update: whole groups of full-length samples.
std::int64_t tokens_of_update(const Recipe& recipe, int num_ranks);
/// Returns the maximum number of tokens in a trained micro-batch: actor.max_tokens_per_micro_batch, or fewer if updates
/// are smaller.
std::int64_t trained_tokens_at_once(const Recipe& recipe, int num_ranks);

/// Estimates a micro-batch's bytes of activations per token.
double activation_bytes(const Recipe& recipe, const model::ModelConfig& config);

/// Estimates the memory of one of num_ranks ranks. If trainer.zero_stage 1 shards a part, the largest shard counts.
///
/// With trainer.device cuda the learner's parts are on the GPU, and host memory holds a checkpoint's staging buffer.
///
/// `held_out`: prompts of the largest held-out set. If unset and evaluations are due, they count as filling the CPU's
/// KV cache.
std::vector<MemoryPart> estimate_memory(const Recipe& recipe, const model::ModelConfig& config, int num_ranks,
                                        std::optional<std::int64_t> held_out = {});

}  // namespace qrl::train

// Owns what a run will need of a device's memory, worked out from recipe and model alone: nothing is allocated. Knows
// nothing of how it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "model/config.h"

namespace qrl::train {

struct MemoryPart {
  std::string name;
  double bytes = 0;
  bool is_exact = true;  ///< false: depends on the implementation, to some ten percent
  bool on_gpu = false;   ///< else of the machine's own memory
};

/// Of one rank: data parallel, so each holds the whole model. Learner (fp32 masters and gradients, moments,
/// lm_head as its kernels read it, the reference of a KL term), activations and logits of a micro-batch,
/// the sampler's weights and its KV cache (with rollout.device cuda: a copy of the one and all of the other on the
/// GPU). Not the program's own some hundred MiB.
std::vector<MemoryPart> estimate_memory(const config::Recipe& recipe, const model::ModelConfig& config);

}  // namespace qrl::train

// Owns who keeps which tensor's master weights and moments when ranks share them (ZeRO stage 1). Free of LibTorch, so
// that the plan of a run's memory asks the same question.
#pragma once

#include <vector>

#include "model/config.h"

namespace qrl::learner {

/// Returns the rank that keeps each tensor of `specs`, so that each rank has about the same bytes. Tensors stay whole:
/// Muon needs whole matrices, and a checkpoint's shard is then one of a Hugging Face folder. `muon`: the layers'
/// matrices have one moment instead of two.
std::vector<int> shard_owners(const std::vector<model::WeightSpec>& specs, bool muon, int num_ranks);

}  // namespace qrl::learner

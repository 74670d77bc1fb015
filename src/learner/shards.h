// Owns which rank keeps a tensor's masters and moments (ZeRO stage 1). Free of LibTorch, for the memory plan.
#pragma once

#include <vector>

#include "model/config.h"

namespace qrl::learner {

/// Returns the rank of each of `specs`, with about equal bytes per rank. Tensors stay whole: Muon needs matrices, and a
/// checkpoint's shard is then a Hugging Face folder's. `muon`: the layers' matrices have one moment.
std::vector<int> shard_owners(const std::vector<model::WeightSpec>& specs, bool muon, int num_ranks);

}  // namespace qrl::learner

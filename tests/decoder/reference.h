// Implements the forward pass of model/config.h in fp64 with plain loops, from a snapshot's weights. The decoder's
// remaining difference from it is the error of the kernels, not of the format.
#pragma once

#include <vector>

#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder::test {

/// Returns logits [T, V] of `tokens`. Rounds only what the format rounds: activations that enter a linear layer.
std::vector<double> reference_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens);

}  // namespace qrl::decoder::test

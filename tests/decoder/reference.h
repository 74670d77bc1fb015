// Implements the forward pass of model/config.h in fp64 with plain loops, from a snapshot's weights. The decoder's
// remaining difference from it is the error of the kernels, not of the format.
#pragma once

#include <vector>

#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder::test {

/// Returns logits [T, V] of `tokens`. Rounds only what the format rounds: activations that enter a linear layer.
std::vector<double> reference_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens);

/// Returns a layer's outputs [T, D] for the inputs x [T, D]. In a sparse layer, `margins` (unless null) gets for each
/// token the difference between the route's smallest logit and the largest other logit.
std::vector<double> reference_layer(const model::Snapshot& snapshot, std::int64_t layer, const std::vector<double>& x,
                                    std::vector<double>* margins = nullptr);

}  // namespace qrl::decoder::test

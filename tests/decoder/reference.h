// The forward pass of model/config.h once more, in fp64 and with plain loops, from the weights that a snapshot holds:
// what is left between it and the decoder is the error of the kernels, not of the format.
#pragma once

#include <vector>

#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder::test {

/// Logits [T, V] of `tokens`. Rounds what the format rounds (activations that enter a linear layer) and nothing else.
std::vector<double> reference_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens);

}  // namespace qrl::decoder::test

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learner/tensors/torch.h"
#include "types/batch.h"

namespace qrl::learner {

std::vector<std::int64_t> counted_rows(const types::MicroBatch& batch);
/// Returns each row's position in the caller's order of sequences, which ascends within a rank's mini-batch for any
/// packing.
std::vector<std::int64_t> positions_of(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows);

/// Returns the entries `rows` of a per-token array as fp64. Throws an invariant error that names an array whose size is
/// not N.
std::vector<double> counted(const std::vector<float>& per_token, const std::vector<std::int64_t>& rows,
                            std::size_t num_tokens, const char* name);

/// Returns the sequence of each of `rows`, int64 [M].
torch::Tensor sequence_of_rows(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows);

}  // namespace qrl::learner

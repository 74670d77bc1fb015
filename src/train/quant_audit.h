// Owns the record of what sampler and learner read, and of what quantizing costs each weight. Knows nothing of steps.
#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/snapshot.h"

namespace qrl::train {

/// Returns one line for embedding, each linear layer of each block, and lm_head. A line names the sampler's format and
/// scales, the tensors of the learner's forward pass, and whether both are the same memory.
std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler);
/// Returns the same in one line: how many linear layers of which format, on the same memory or not.
std::string audit_summary(const std::vector<std::string>& audit);

/// Returns one line for each weight that a linear layer or lm_head holds: its format and its errors against the
/// learner's masters. Errors are the largest, the root mean square, the signal-to-noise ratio and the cosine.
/// Collective if masters are sharded; otherwise empty on all ranks but the first.
std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world);

}  // namespace qrl::train

// Owns the record of what sampler and learner read, and of what quantizing costs each weight. Knows nothing of steps.
#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/snapshot.h"

namespace qrl::train {

/// One line for embedding, each linear layer of each block, and lm_head: the sampler's format and scales, what the
/// learner's forward pass reads, and whether that is the same memory.
std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler);
/// The same in a line: how many linear layers of which format, on the same memory or not.
std::string audit_summary(const std::vector<std::string>& audit);

/// One line for each weight that a linear layer or lm_head holds: its format, and largest and root mean square error,
/// signal-to-noise ratio and cosine against the learner's masters, which may be spread over ranks: then it is
/// collective. Empty on all ranks but the first where they are not.
std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world);

}  // namespace qrl::train

// Owns the record of what sampler and learner read, and of each weight's quantization error.
#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/snapshot.h"

namespace qrl::train {

/// Returns a line for embedding, each block's linear layers, and lm_head. It names the sampler's format and scales, the
/// learner's tensors, and whether both share memory.
std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler);
/// Summarizes those lines: linear layers per format, and how many tensors share memory.
std::string audit_summary(const std::vector<std::string>& audit);

/// Returns a line per weight of linear layers and lm_head: format and errors against the masters. These are the
/// largest, root mean square, signal-to-noise ratio and cosine. Collective if sharded; else empty on all ranks but the
/// first.
std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world);

}  // namespace qrl::train

#pragma once

#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/snapshot.h"

namespace qrl::train {

/// Returns a line each for the embedding, linear layers of every block, and lm_head: the sampler's format and scales,
/// the learner's tensors, and whether both share memory.
std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler);
/// Summarizes the audit: linear layers per format, and how many tensors share memory.
std::string audit_summary(const std::vector<std::string>& audit);

/// Returns a line per weight of linear layers and lm_head: its format and errors against the masters (largest, root
/// mean square, signal-to-noise ratio, cosine). Collective if sharded; otherwise empty except on the first rank.
std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world);

}  // namespace qrl::train

#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Lists the keys that act on the clip of a token's ratio.
std::vector<config::Constraint> constraints_of_weighted_log_probs();

}  // namespace qrl::learner

// Owns what losses share whose gradient is a detached weight times that of log π: which keys have no meaning with one.
#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Keys that act on the clip of a token's ratio.
std::vector<config::Limit> limits_of_weighted_log_probs();

}  // namespace qrl::learner

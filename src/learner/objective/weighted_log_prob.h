#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Lists the keys that act on the clip of a token's ratio, without meaning in losses whose gradient is a detached
/// weight times that of log π.
std::vector<config::Limit> limits_of_weighted_log_probs();

}  // namespace qrl::learner

#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::learner {

/// Computes s_i = exp(mean_t log R_t) on each token, [M]. With `token_form`, log s_it = log R_t − sg(log R_t) + sg(log
/// s_i): equal values, with the gradient of a token's own log-ratio.
torch::Tensor sequence_ratio(const SurrogateInput& input, bool token_form);

/// Lists the keys that act on a token's ratio.
std::vector<config::Constraint> constraints_of_sequence_ratios();

}  // namespace qrl::learner

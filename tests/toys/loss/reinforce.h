// Defines a toy loss as a user would add one: the word `reinforce`, one key, one metric.
#pragma once

#include "learner/objective/policy_losses.h"

namespace qrl::test {

extern const learner::PolicyLoss reinforce;

}  // namespace qrl::test

// Defines a toy correction as a user would add one: the word `half`.
#pragma once

#include "learner/objective/corrections.h"

namespace qrl::test {

extern const learner::Correction half;

}  // namespace qrl::test

// Owns the list of tasks, from which a recipe selects generators and verifiers.
#pragma once

#include "config/choice.h"

namespace qrl::tasks {

config::Choices generators();  ///< each is a Generator
config::Choices verifiers();   ///< each is a VerifierChoice

}  // namespace qrl::tasks

// Owns the list of tasks: what a recipe's words for generators and verifiers select. Knows no task's rules.
#pragma once

#include "config/choice.h"

namespace qrl::tasks {

config::Choices generators();  ///< each a Generator
config::Choices verifiers();   ///< each a VerifierChoice

}  // namespace qrl::tasks

// Owns the list of tasks, whose generators and verifiers recipes select.
#pragma once

#include "config/choice.h"

namespace qrl::tasks {

config::Choices generators();  ///< each a Generator
config::Choices verifiers();   ///< each a VerifierChoice

}  // namespace qrl::tasks

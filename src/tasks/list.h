// Owns the list of tasks, whose generators and verifiers recipes select.
#pragma once

#include "config/option.h"

namespace qrl::tasks {

config::Choices<Generator> generators();
config::Choices<VerifierChoice> verifiers();

}  // namespace qrl::tasks

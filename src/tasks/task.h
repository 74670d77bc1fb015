#pragma once

#include "config/option.h"
#include "tasks/generator.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

/// Holds a task's generator, verifier, or both. If a part's `word` is empty, the task lacks that part (`math` has no
/// generator).
struct Task {
  Generator generator;
  VerifierChoice verifier;
};

config::Choices<Generator> generators();
config::Choices<VerifierChoice> verifiers();

}  // namespace qrl::tasks

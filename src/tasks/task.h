#pragma once

#include "tasks/generator.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

/// A generator, a verifier, or both. A part with an empty word does not exist (`math` has no generator).
struct Task {
  Generator generator;
  VerifierChoice verifier;
};

}  // namespace qrl::tasks

// Owns the type of a task: a generator of prompts, a verifier of answers, or both.
#pragma once

#include "tasks/generator.h"
#include "tasks/verifier.h"

namespace qrl::tasks {

/// A part with an empty word does not exist: arithmetic is judged by `math`, which has no generator.
struct Task {
  Generator generator;
  VerifierChoice verifier;
};

}  // namespace qrl::tasks

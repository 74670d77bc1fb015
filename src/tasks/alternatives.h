// Owns ground truths that are lists of accepted answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Wraps a rule so that a ground truth may be a non-empty list of what it accepts. The verdict is that of the first
/// matching answer, else of the one with the most partial credit.
std::unique_ptr<Verifier> with_alternatives(std::unique_ptr<RuleVerifier> rule);

/// Returns a list's first answer as compact JSON; else the ground truth.
std::string first_answer(std::string_view ground_truth);

}  // namespace qrl::tasks

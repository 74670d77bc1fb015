// Owns ground truths that are lists of accepted answers: a response is right if it matches one of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Wraps a rule so that a ground truth may be a non-empty list of texts, numbers or objects that the rule accepts. The
/// verdict is that of the first answer that the response matches, else the one with the most partial credit.
std::unique_ptr<Verifier> with_alternatives(std::unique_ptr<RuleVerifier> rule);

/// Returns the first answer of a ground truth that is a list, as compact JSON; else the ground truth itself.
std::string first_answer(std::string_view ground_truth);

}  // namespace qrl::tasks

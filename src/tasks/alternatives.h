#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Wraps a rule so that a ground truth may be a list of gold answers. The first matching gold answer gives the verdict.
/// If none matches, the verdict with the most partial credit counts.
std::unique_ptr<Verifier> with_alternatives(std::unique_ptr<RuleVerifier> rule);

std::string first_answer(std::string_view ground_truth);

}  // namespace qrl::tasks

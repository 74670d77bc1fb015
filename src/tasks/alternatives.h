// Owns lists of accepted answers as ground truths: a response is right when one of them says so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tasks/verifier.h"

namespace qrl::tasks {

/// Makes of a rule one whose ground truth may be a list: of texts, numbers or objects that the rule itself can judge
/// by, one or more. The verdict is that of the first that finds the response right, else the one of most credit.
std::unique_ptr<Verifier> with_alternatives(std::unique_ptr<RuleVerifier> rule);

/// The first answer of a ground truth that is a list, written as JSON without spaces; else the ground truth itself.
std::string first_answer(std::string_view ground_truth);

}  // namespace qrl::tasks

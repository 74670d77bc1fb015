// Owns where in a response its answer stands. Knows nothing of what an answer means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

/// The answer of a response, without $ and other surroundings; several boxes joined by commas or "and" are one list.
/// Others behind it are read where it is not right. Only the end of a response is searched (answer.h's
/// kMaxScanned_bytes); linear in that. None: there is no answer. The profiles are those of docs/reference/verifiers.md.
std::vector<std::string> extract(std::string_view response, config::MathProfile profile,
                                 const Vocabulary& vocabulary = default_vocabulary());

/// The gold answer in a ground truth: its last box, what follows ####, or the whole.
std::string extract_gold(std::string_view ground_truth);

}  // namespace qrl::reward::math

// Owns where in a response its answer stands. Knows nothing of whether it is right.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace qrl::reward::math {

/// The answer of a response, without $ and other surroundings; several boxes joined by commas or "and" are one list.
/// Only the end of a response is searched (verifier.h's kMaxScanned_bytes); linear in that. Profiles:
/// - boxed: the last complete \boxed{…}        - gsm8k: what follows the last ####
/// - answer_is: what follows the last "answer is" or "answer:", up to the end of the sentence; without them the choice
///   that the last sentence says is right
/// - answer_tag: the last complete <answer>…</answer>
/// - text: the whole response                  - last_number: its last number or formula between $
/// - auto: the first of boxed, gsm8k, answer_is, answer_tag, text (up to 300 bytes that are a formula or up to five
///   words), last_number that there is; an empty one ends the search.
std::optional<std::string> extract(std::string_view response, config::MathProfile profile);

/// The gold answer in a ground truth: its last box, what follows ####, the whole, or what follows "answer is".
std::string extract_gold(std::string_view ground_truth);

}  // namespace qrl::reward::math

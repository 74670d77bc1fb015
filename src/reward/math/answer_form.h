// Owns whether an answer is worked out: reward.answer_form.
#pragma once

#include "reward/math/reading.h"

namespace qrl::reward::math {

/// Whether no operation on rational numbers is left to do in it. What cannot be read is.
bool is_worked_out(const Reading& answer);
/// The same, or it leaves the operation that the gold answer leaves.
bool is_worked_out_as(const Reading& gold, const Reading& answer);

}  // namespace qrl::reward::math

// Owns when two answers are the same: of numbers and formulas, lists, tuples, sets, intervals, matrices, equations,
// inequalities, quantities and texts. Knows nothing of where in a response an answer stood.
#pragma once

#include <string>
#include <string_view>

#include "reward/math/evaluate.h"
#include "reward/math/tree.h"

namespace qrl::reward::math {

enum class Comparison : std::uint8_t {
  equal,
  different,
  unreadable,  ///< the answer is not in the grammar, and not the same text either
  out_of_budget,
};

/// `gold` and `answer` without what surrounds them ($, \boxed, "answer is"; extract.h). Rules that are ours to choose:
/// - A bare list and a set are unordered, tuples and intervals are ordered; a bare list equals a tuple in its order.
/// - x = 5, f(x) = 5 and AB = 5 are 5 where the other side is no equation; equations are equal when their differences
///   are proportional, inequalities when by a positive factor. Sets of reals are compared as sets.
/// - A decimal of six places or more (five digits) equals a number within one unit of its last place that has more
/// places.
/// - Units and currencies count when both sides have a known one; 20 equals 20 % when 20 is written as a plain number.
/// - A choice with its label, "(B) 42", equals its label or its value alone; times of day are compared as times.
Comparison compare(std::string_view gold, std::string_view answer);

/// Why a gold answer cannot be judged by; empty when it can. A text (letters that are no formula) is one.
std::string gold_fault(std::string_view gold);
/// The same apart from whether it has a value: cheaper, for every verdict.
bool is_readable(std::string_view gold);

}  // namespace qrl::reward::math

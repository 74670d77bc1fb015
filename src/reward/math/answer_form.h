// Owns whether an answer is worked out: 25+60 is worth 85 and is a sum that is left to do. Knows nothing of what is
// asked and of whether two answers are equal.
//
// An operation is left to do where numbers alone have a rational value and are not the writing of one number. Such a
// writing is an integer, a decimal, a percentage, a fraction of two integers in lowest terms whose denominator is above
// 1, a mixed number, a number times a power of ten, a number in another base, and each of these with a sign, a unit or
// degrees. So 3√2, 1+√2, 2π, 3+4i and (x+1)² are worked out, and 170/2, √16, 5! and 2·3√2 are not.
#pragma once

#include <string_view>

namespace qrl::reward::math {

/// Every item of a list, set, tuple or matrix counts; of sides joined by an equals sign one must be worked out, and a
/// name beside them says nothing. True of texts and of what cannot be read.
bool is_worked_out(std::string_view answer);

/// Whether `answer`, which equals `gold`, is worked out, or leaves the same operations on the same numbers as `gold`.
bool is_worked_out_as(std::string_view gold, std::string_view answer);

}  // namespace qrl::reward::math

// Owns arithmetic in model text: the grammar, its limits and exact evaluation. Knows nothing of tasks or of where the
// text came from.
//
//   sum     = product { ("+" | "-") product }
//   product = signed { ("*" | "/") signed }
//   signed  = { "+" | "-" } ( number | "(" sum ")" )
//   number  = "0" | nonzero-digit { digit }            ASCII digits only; "05", ".5", "1e3", "1_000" are not numbers
//
// White space is ASCII and may stand between any two of these. "**", "//", "×", "÷" and implicit products are not in
// the grammar.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/rational.h"

namespace qrl::tasks {

using base::Rational;

inline constexpr std::size_t kMaxExpression_bytes = 1024;
inline constexpr int kMaxDepth = 64;  ///< parentheses and signs open at one time
inline constexpr std::size_t kMaxNumbers = 32;

enum class ExpressionFault : std::uint8_t {
  none,
  too_long,  ///< more than kMaxExpression_bytes: not read
  too_deep,  ///< more than kMaxDepth: not read to its end
  grammar,
  division_by_zero,  ///< in the grammar, without a value
  overflow,          ///< in the grammar; a numerator or denominator on the way leaves 64 bits: equal to nothing
};

struct Expression {
  ExpressionFault fault = ExpressionFault::none;
  Rational value;                                   ///< when fault is none and num_numbers ≤ kMaxNumbers
  std::array<std::int64_t, kMaxNumbers> numbers{};  ///< as written, in order; unsigned, −1 where beyond 64 bits
  std::size_t num_numbers = 0;                      ///< written; may exceed kMaxNumbers, of which the first are kept
};

/// Operators as LaTeX spells them (\times, \cdot, \div), \frac{sum}{sum} (dfrac, tfrac; or one digit for a brace) and
/// \left( \right) besides the ASCII ones: the content of a \boxed{} is LaTeX.
enum class Operators : std::uint8_t { ascii, latex };

/// Allocates nothing; work is linear in at most kMaxExpression_bytes.
Expression evaluate_expression(std::string_view text, Operators operators) noexcept;

}  // namespace qrl::tasks

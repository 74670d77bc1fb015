// Owns arithmetic in model text: grammar, limits and exact evaluation.
//
// sum = product { ("+" | "-") product }
// product = signed { ("*" | "/") signed }
// signed = { "+" | "-" } ( number | "(" sum ")" )
// number = "0" | nonzero-digit { digit } ASCII digits only; "05", ".5", "1e3", "1_000" are not numbers
//
// ASCII whitespace is allowed between tokens. "**", "//", "×", "÷" and implicit products are not in the grammar.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/rational.h"

namespace qrl::tasks {

using base::Rational;

inline constexpr std::size_t kMaxExpression_bytes = 1024;
inline constexpr int kMaxDepth = 64;  ///< nesting of parentheses and signs
inline constexpr std::size_t kMaxNumbers = 32;

enum class ExpressionFault : std::uint8_t {
  none,
  too_long,  ///< more than kMaxExpression_bytes; not parsed
  too_deep,  ///< more than kMaxDepth; not parsed to the end
  grammar,
  division_by_zero,  ///< valid, but no value
  overflow,          ///< valid, but a numerator or denominator exceeds 64 bits: equals no target
};

struct Expression {
  ExpressionFault fault = ExpressionFault::none;
  Rational value;                                   ///< valid if fault is none and num_numbers ≤ kMaxNumbers
  std::array<std::int64_t, kMaxNumbers> numbers{};  ///< in text order, without sign; −1: exceeds 64 bits
  std::size_t num_numbers = 0;                      ///< count in the text; `numbers` has only the first kMaxNumbers
};

/// Selects the operators of a text: only ASCII, or also those of LaTeX. These are \times, \cdot, \div, \frac{sum}{sum}
/// (dfrac, tfrac; braces around one digit are optional), \left( and \right).
enum class Operators : std::uint8_t { ascii, latex };

/// Evaluates a text of up to kMaxExpression_bytes without allocation, in linear time.
Expression evaluate_expression(std::string_view text, Operators operators) noexcept;

}  // namespace qrl::tasks

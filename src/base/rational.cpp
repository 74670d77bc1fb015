#include "base/rational.h"

#include <limits>

namespace qrl::base {

namespace {

/// Reduces a fraction with |numerator| < 2^127 and 0 < denominator < 2^127. Returns nothing if the result exceeds 64
/// bits.
std::optional<Rational> narrow(__int128 numerator, __int128 denominator) noexcept {
  __int128 a = numerator < 0 ? -numerator : numerator;
  __int128 b = denominator;
  while (b != 0) {
    const __int128 rest = a % b;
    a = b;
    b = rest;
  }
  numerator /= a;
  denominator /= a;
  constexpr __int128 kMax = std::numeric_limits<std::int64_t>::max();
  if (numerator > kMax || numerator < -kMax || denominator > kMax) return std::nullopt;
  return Rational{static_cast<std::int64_t>(numerator), static_cast<std::int64_t>(denominator)};
}

}  // namespace

// Computes exactly in 128 bits: operands are below 2^63 in magnitude, products below 2^126, sums of two below 2^127.
std::optional<Rational> sum(Rational a, Rational b) noexcept {
  if (a.is_integer() && b.is_integer()) {
    std::int64_t value = 0;
    const bool fits =
        !__builtin_add_overflow(a.numerator, b.numerator, &value) && value != std::numeric_limits<std::int64_t>::min();
    return fits ? std::optional(Rational{value, 1}) : std::nullopt;
  }
  const __int128 x = static_cast<__int128>(a.numerator) * b.denominator;
  const __int128 y = static_cast<__int128>(b.numerator) * a.denominator;
  return narrow(x + y, static_cast<__int128>(a.denominator) * b.denominator);
}

std::optional<Rational> difference(Rational a, Rational b) noexcept {
  return sum(a, {-b.numerator, b.denominator});  // cannot overflow: narrow() never returns the least int64
}

std::optional<Rational> product(Rational a, Rational b) noexcept {
  return narrow(static_cast<__int128>(a.numerator) * b.numerator, static_cast<__int128>(a.denominator) * b.denominator);
}

std::optional<Rational> quotient(Rational a, Rational b) noexcept {
  if (b.numerator == 0) return std::nullopt;
  return product(a, b.numerator > 0 ? Rational{b.denominator, b.numerator} : Rational{-b.denominator, -b.numerator});
}

std::optional<Rational> power(Rational a, std::int64_t n) noexcept {
  if (n < 0) {
    const auto inverse = quotient({1, 1}, a);
    if (!inverse || n == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    return power(*inverse, -n);
  }
  if (a.denominator == 1 && (a.numerator == 0 || a.numerator == 1)) return n == 0 ? Rational{1, 1} : a;
  if (a.denominator == 1 && a.numerator == -1) return Rational{n % 2 == 0 ? 1 : -1, 1};
  if (n > 63) return std::nullopt;  // the power overflows: |numerator| or denominator is at least 2
  Rational result{1, 1};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto next = product(result, a);
    if (!next) return std::nullopt;
    result = *next;
  }
  return result;
}

}  // namespace qrl::base

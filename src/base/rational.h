#pragma once

#include <cstdint>
#include <optional>

namespace qrl::base {

/// Holds numerator / denominator in lowest terms. The denominator is above 0; |numerator| and denominator are at most
/// 2^63 − 1.
struct Rational {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  bool is_integer() const noexcept { return denominator == 1; }
  friend bool operator==(const Rational&, const Rational&) = default;
};

/// Compute exactly. Return nothing if the reduced result exceeds Rational's limits, or if the divisor is zero.
std::optional<Rational> sum(Rational a, Rational b) noexcept;
std::optional<Rational> difference(Rational a, Rational b) noexcept;
std::optional<Rational> product(Rational a, Rational b) noexcept;
std::optional<Rational> quotient(Rational a, Rational b) noexcept;
/// Returns a^n, or nothing in the same cases as above.
std::optional<Rational> power(Rational a, std::int64_t n) noexcept;

}  // namespace qrl::base

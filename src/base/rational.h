#pragma once

#include <cstdint>
#include <optional>

namespace qrl::base {

/// numerator / denominator in lowest terms, denominator > 0, |numerator| and denominator at most 2^63 − 1.
struct Rational {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  bool is_integer() const noexcept { return denominator == 1; }
  friend bool operator==(const Rational&, const Rational&) = default;
};

/// Operations return nothing if the reduced result exceeds 64 bits, or for a division by zero.
std::optional<Rational> sum(Rational a, Rational b) noexcept;
std::optional<Rational> difference(Rational a, Rational b) noexcept;
std::optional<Rational> product(Rational a, Rational b) noexcept;
std::optional<Rational> quotient(Rational a, Rational b) noexcept;
/// Returns a^n, with at most 64 products.
std::optional<Rational> power(Rational a, std::int64_t n) noexcept;

}  // namespace qrl::base

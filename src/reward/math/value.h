// Owns what an expression is worth: its image in a finite field, a number of 34 digits, and its exact form where that
// is a short fraction. Knows nothing of text or of the shape of answers.
//
// Expressions are computed in several lanes: each is a field (field.h) and an assignment of the variables to
// pseudo-random elements of it and, apart from that, to pseudo-random positive numbers. Two expressions are equal when
// they are in every lane: exact forms decide alone, images of rational functions decide with the numbers' consent, and
// everything else agrees in its numbers to 25 digits. A function without a law here is a polynomial with pseudo-random
// coefficients.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/rational.h"
#include "reward/math/field.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

using base::Rational;
using Real = __float128;
using Complex = std::complex<Real>;

struct Value {
  std::optional<Rational> exact;
  std::optional<std::uint64_t> image;  ///< of what is made by + − · / and whole powers alone
  Complex z;
  std::int8_t infinite = 0;  ///< ±1: ±∞; nothing else counts then
  bool undefined = false;    ///< 1/0, 0^0, ∞ − ∞, …: equal to nothing
  bool constant = true;      ///< whether it has no variable and no function without a law

  static Value nothing() noexcept;  ///< undefined
  bool is_number() const noexcept { return !undefined && infinite == 0; }
  bool is_integer() const noexcept { return exact && exact->is_integer(); }
  bool is_zero() const noexcept;
  /// The real number that it is: of constants.
  std::optional<long double> real() const noexcept;
};

inline constexpr std::int64_t kMaxFactorial = 3000;  ///< n! with a larger n is known by its size alone

/// What variables are, beside positive numbers.
struct Variables {
  bool whole = false;  ///< whole: where a sign depends on whether they are even
  bool signs = false;  ///< of both signs: where absolute values are taken
};

/// Computes values in one lane. Work per operation is bounded.
class Algebra {
 public:
  explicit Algebra(std::size_t lane = 0, Variables variables = {}) noexcept : lane_(lane), variables_(variables) {}

  Value rational(Rational q) const noexcept;
  Value integer(std::int64_t n) const noexcept { return rational({n, 1}); }
  /// ASCII digits below `base`, 2 to 10, with at most one '.', times 10^exponent, |exponent| ≤ 10⁴.
  Value digits(std::string_view text, std::int64_t exponent, unsigned base = 10) const noexcept;
  /// The constants of TokenType::constant.
  Value constant(char code) const noexcept;
  Value symbol(std::string_view name) const noexcept;
  /// f(arguments) for an f about which nothing is known.
  Value opaque(std::string_view name, std::span<const Value> arguments) const noexcept;
  Value opaque(char name, std::span<const Value> arguments) const noexcept { return opaque({&name, 1}, arguments); }

  Value add(const Value& a, const Value& b) const noexcept;
  Value negate(const Value& a) const noexcept;
  Value subtract(const Value& a, const Value& b) const noexcept { return add(a, negate(b)); }
  Value multiply(const Value& a, const Value& b) const noexcept;
  Value divide(const Value& a, const Value& b) const noexcept;
  /// Principal values, but real roots of negative numbers where the root is odd.
  Value power(const Value& base, const Value& exponent) const noexcept;

  Value factorial(const Value& n) const noexcept;
  Value binomial(const Value& n, const Value& k) const noexcept;
  Value absolute(const Value& a) const noexcept;
  Value rounded(const Value& a, bool up) const noexcept;
  /// a mod b, and the greatest common divisor, of integers.
  Value modulo(const Value& a, const Value& b) const noexcept;
  Value common_divisor(const Value& a, const Value& b) const noexcept;
  /// Of the functions of one argument with a law that no other member is; nothing of others.
  std::optional<Value> function(Law law, const Value& a) const noexcept;

 private:
  const Field& field() const noexcept { return kFields[lane_ % 2]; }
  Value number(Complex z, bool constant) const noexcept;
  Value integer_power(const Value& base, std::int64_t n) const noexcept;

  std::size_t lane_;
  Variables variables_;
};

/// Decides equality of two values of the same lane.
bool equal(const Value& a, const Value& b) noexcept;

}  // namespace qrl::reward::math

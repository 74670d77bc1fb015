// Owns what an expression is worth: its images in finite fields, a numeric approximation, and its exact form where that
// is short. Knows nothing of text or of the shape of answers.
//
// Two values are equal when their images agree in every lane and their approximations do not contradict. A lane is a
// field and an assignment of the variables to pseudo-random elements; each image respects +, −, ·, / and powers, so
// equal expressions have equal images whatever their form, and different ones agree by chance only (the bound is
// field.h's). Function values without an algebraic law here are pseudo-random elements keyed by function and argument.
// An exact form, where both have one, decides alone.
//
// A root of something that is itself a sum has a sign that algebra does not fix: `Signs` chooses it, and the caller
// tries the choices (compare.cpp); the approximations, which do fix it, keep wrong choices from agreeing.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rational.h"
#include "reward/math/field.h"

namespace qrl::reward::math {

using base::Rational;

inline constexpr std::size_t kLanes = 3;
inline const Field& field_of(std::size_t lane) noexcept { return kFields[lane < 2 ? 0 : 1]; }
using Complex = std::complex<long double>;
using Numbers = std::array<Complex, kLanes>;  ///< a number for each lane
template <class Number>
Numbers by_lane(const Number& number) {
  return {number(0), number(1), number(2)};
}
inline constexpr long double kPi = 3.14159265358979323846264338327950288L;
inline constexpr long double kE = 2.71828182845904523536028747135266250L;

/// An expression as an exponent: its image in F_q, and its parity (an image in Z/2, for powers of what is no square).
struct Exponent {
  enum Parity : std::uint8_t { even, odd, none };
  std::uint64_t residue = 0;
  Parity parity = none;
  bool known = false;
};

/// q · π^pi · i^i with pi and i 0 or 1.
struct Exact {
  Rational q;
  bool pi = false, i = false;
  friend bool operator==(const Exact&, const Exact&) = default;
};

struct Value {
  std::array<Element, kLanes> f{};
  std::array<Exponent, kLanes> g{};
  Numbers z{};
  std::optional<Exact> exact;
  std::int8_t infinite = 0;  ///< ±1: ±∞; nothing else counts then
  bool undefined = false;    ///< 1/0, 0^0, ∞ − ∞, …: equal to nothing

  bool is_number() const noexcept { return !undefined && infinite == 0; }
  bool is_rational() const noexcept { return exact && !exact->pi && !exact->i; }
  bool is_integer() const noexcept { return is_rational() && exact->q.is_integer(); }
  bool is_zero() const noexcept { return exact && exact->q.numerator == 0; }
  /// The real number that it is about, when all lanes agree on one: for constants.
  std::optional<long double> real() const noexcept;
};

/// What stands for a value in an exponent: its image there, or, unknown, an element keyed by its image in the field.
Exponent exponent_or_key(const Value& value, std::size_t lane) noexcept;

inline constexpr std::int64_t kMaxFactorial = 3000;  ///< n! with a larger n stands for itself

/// What needs no choice of signs. Work per operation is bounded (about 200 products of a field).
class Arithmetic {
 public:
  Value rational(Rational q) const noexcept;
  Value integer(std::int64_t n) const noexcept { return rational({n, 1}); }
  /// ASCII digits below `base`, 2 to 10, with at most one '.', times 10^exponent, |exponent| ≤ 10⁴.
  Value digits(std::string_view text, std::int64_t exponent, unsigned base = 10) const noexcept;
  Value infinity(int sign) const noexcept;
  Value undefined() const noexcept;
  Value pi() const noexcept;
  Value e() const noexcept;
  Value i() const noexcept;
  /// f(arguments) for an f about which nothing is known; `numeric` where its values are.
  Value opaque(std::string_view name, const std::vector<Value>& arguments,
               const std::optional<Numbers>& numeric = {}) const noexcept;

  Value add(const Value& a, const Value& b) const noexcept;
  Value negate(const Value& a) const noexcept;
  Value subtract(const Value& a, const Value& b) const noexcept { return add(a, negate(b)); }
  Value multiply(const Value& a, const Value& b) const noexcept;
  Value divide(const Value& a, const Value& b) const noexcept;

 protected:
  Value integer_power(const Value& base, std::int64_t n) const noexcept;

 private:
  void settle(Value& value) const noexcept;
};

/// Computes values under one choice of signs, with as little work per operation.
class Algebra : public Arithmetic {
 public:
  /// Bit k of `signs` turns the k-th ambiguous root of each lane around.
  /// `round`: which of many assignments of small integers variables have.
  explicit Algebra(std::uint32_t signs = 0, std::uint64_t round = 0) noexcept : signs_(signs), round_(round) {}
  /// Ambiguous roots met so far, in the lane that met most.
  std::size_t num_ambiguous_roots() const noexcept;

  /// A variable: in every lane another square of F_p and another small positive integer.
  Value symbol(std::string_view name) const noexcept;

  Value power(const Value& base, const Value& exponent);
  Value root(const Value& radicand, const Value& degree) { return power(radicand, divide(integer(1), degree)); }

  Value factorial(const Value& n) const;
  Value binomial(const Value& n, const Value& k) const;
  Value absolute(const Value& a);
  Value logarithm(const Value& a);
  enum class Trig : std::uint8_t { sin, cos, tan };
  Value trigonometric(Trig which, const Value& angle);
  Value inverse_trigonometric(Trig which, const Value& a);
  /// e^(i·angle).
  Value circle(const Value& angle);
  Value hyperbolic(Trig which, const Value& a);
  Value rounded(const Value& a, bool up) const;
  /// a mod b, greatest common divisor and least common multiple of integers; opaque otherwise.
  Value modulo(const Value& a, const Value& b) const;
  Value common_divisor(const Value& a, const Value& b) const;

 private:
  Value rational_power(Rational base, const Value& exponent);
  Value prime_power(std::uint64_t prime, const Value& exponent) const noexcept;
  Element power_image(std::size_t lane, Element base, const Value& exponent, bool fixed_sign);
  Element with_sign(std::size_t lane, Element radicand, Element root);
  Value cosine_of_pi(Rational q);

  std::uint32_t signs_;
  std::uint64_t round_;
  /// The logarithms taken so far and their arguments: what undoes them.
  std::vector<std::pair<std::array<Element, kLanes>, Value>> logarithms_;
  std::array<std::vector<Element>, kLanes> roots_;  ///< radicands of ambiguous roots, in the order met
};

/// Decides equality of two values of the same Algebra, by exact forms where both have one. `lanes` gets a bit for each
/// lane whose images agree.
bool equal(const Value& a, const Value& b, unsigned* lanes = nullptr) noexcept;
/// Whether the approximations leave it possible that a = b.
bool near(const Value& a, const Value& b) noexcept;

}  // namespace qrl::reward::math

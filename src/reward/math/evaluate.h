// Owns a tree's value: an image in a finite field, a number of 34 digits, and a short exact fraction.
//
// A lane consists of a field, and of a pseudo-random field element and number for each variable. Two values are equal
// if they are equal in every lane. Exact forms decide alone if both values have one. Otherwise the numbers must agree
// to 25 digits, and the images, if both values have one, must be equal. An unknown function becomes a pseudo-random
// polynomial.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rational.h"
#include "reward/math/tree.h"

namespace qrl::reward::math {

using base::Rational;
using Real = __float128;
using Complex = std::complex<Real>;

/// Computes with integers modulo a prime p below 2^62. p ≡ 1 mod 4, so that −1 has a square root.
struct Field {
  std::uint64_t p;
  std::uint64_t i;  ///< i·i = −1

  constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) const noexcept { return (a + b) % p; }
  constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) const noexcept {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b % p);
  }
  constexpr std::uint64_t power(std::uint64_t a, std::uint64_t n) const noexcept {
    std::uint64_t result = 1;
    for (; n != 0; n >>= 1, a = multiply(a, a))
      if ((n & 1) != 0) result = multiply(result, a);
    return result;
  }
  constexpr std::uint64_t inverse(std::uint64_t a) const noexcept { return power(a, p - 2); }  ///< 0 for 0
  constexpr std::uint64_t from(std::int64_t n) const noexcept {
    const std::int64_t rest = n % static_cast<std::int64_t>(p);
    return static_cast<std::uint64_t>(rest) + (rest < 0 ? p : 0);
  }
};

/// Different numbers agree in both fields only if both primes divide the numerator of their difference. Different
/// functions of degree d agree at a random point of one field with probability at most d / 2^61.
inline constexpr Field kFields[2] = {{4611686018427387817u, 4490822397581186023u},
                                     {4611686018427387761u, 3481184452870754207u}};

struct Value {
  std::optional<Rational> exact = {};
  std::optional<std::uint64_t> image = {};  ///< the value in one of kFields; unset after operations such as roots
  Complex z = {};
  std::int8_t infinite = 0;  ///< ±1: the value is ±∞, and other members have no meaning
  bool undefined = false;    ///< 1/0, 0^0, ∞ − ∞, …: unequal to everything
  bool constant = true;      ///< no variable and no unknown function

  static Value nothing() noexcept { return {.undefined = true}; }
  bool is_number() const noexcept { return !undefined && infinite == 0; }
  bool is_integer() const noexcept { return exact && exact->is_integer(); }
  bool is_zero() const noexcept;
  /// Returns the value of a real constant; none for other values.
  std::optional<long double> real() const noexcept;
};
bool equal(const Value& a, const Value& b) noexcept;

inline constexpr std::int64_t kMaxFactorial = 3000;  ///< a larger n gives an approximate n!

/// Describes the values of variables. If no member is set, variables are positive reals.
struct Variables {
  bool whole = false;  ///< if set, variables are integers: a sign depends on parity
  bool signs = false;  ///< if set, variables may be negative: an absolute value occurs
};

/// Computes in one lane, with bounded work per operation.
class Algebra {
 public:
  explicit Algebra(std::size_t lane = 0, Variables variables = {}) noexcept : lane_(lane), variables_(variables) {}

  Value rational(Rational q) const noexcept;
  Value integer(std::int64_t n) const noexcept { return rational({n, 1}); }
  /// Returns d · 10^exponent, where d are ASCII digits and letters in `base` (2 to kMaxRadix) with at most one '.'.
  /// |exponent| < 10⁵.
  Value digits(std::string_view text, std::int64_t exponent = 0, unsigned base = 10) const noexcept;
  Value constant(char code) const noexcept;
  Value symbol(std::string_view name) const noexcept;
  /// Returns a pseudo-random value for f(arguments) of an unknown function.
  Value opaque(std::string_view name, std::span<const Value> arguments = {}) const noexcept;
  Value opaque(char name, std::span<const Value> arguments = {}) const noexcept {
    return opaque({&name, 1}, arguments);
  }

  Value add(const Value& a, const Value& b) const noexcept;
  Value negate(const Value& a) const noexcept;
  Value subtract(const Value& a, const Value& b) const noexcept { return add(a, negate(b)); }
  Value multiply(const Value& a, const Value& b) const noexcept;
  Value divide(const Value& a, const Value& b) const noexcept { return multiply(a, integer_power(b, -1)); }
  /// Returns the principal value, except that odd roots of negative numbers are real.
  Value power(const Value& base, const Value& exponent) const noexcept;

  Value factorial(const Value& n) const noexcept;
  Value binomial(const Value& n, const Value& k) const noexcept {
    const Value above = factorial(n), below = multiply(factorial(k), factorial(subtract(n, k)));
    return below.undefined && above.is_number() && k.is_integer() ? integer(0) : divide(above, below);  // k > n
  }
  Value absolute(const Value& a) const noexcept;
  Value rounded(const Value& a, bool up) const noexcept;
  /// Computes a function of one argument; none for other laws.
  std::optional<Value> function(Law law, const Value& a) const noexcept;

 private:
  const Field& field() const noexcept { return kFields[lane_ % 2]; }
  Value number(Complex z, bool constant) const noexcept;
  Value integer_power(const Value& base, std::int64_t n) const noexcept;

  std::size_t lane_;
  Variables variables_;
};

/// Limits a verdict's work: values computed after the budget is spent are undefined.
class Budget {
 public:
  bool spend(std::int64_t steps = 1) noexcept { return (left_ -= steps) >= 0; }
  bool spent() const noexcept { return left_ < 0; }

 private:
  std::int64_t left_ = 4000;  ///< steps left, up to 1 µs each: nodes to evaluate or compare; chosen by this project
};

/// Evaluates trees. A node that is no number (a set in a function, a relation in a sum) becomes an unknown function of
/// its parts.
class Evaluator : public Algebra {
 public:
  /// `upper`: ± is + and ∓ is −; otherwise the reverse.
  Evaluator(const Algebra& algebra, Budget& budget, bool upper = true) noexcept
      : Algebra(algebra), budget_(budget), upper_(upper) {}

  Value value(const Node& at);
  /// Both arguments must outlive this.
  void assign(std::string_view variable, const Value& value) noexcept { variable_ = variable, assigned_ = &value; }

 private:
  Value sum(const Node& at);
  Value product(const Node& at);
  Value raised(const Value& base, const Value& exponent);
  Value call(const Node& at);
  std::optional<Value> known_call(Law law, std::vector<Value>& arguments, const std::optional<Value>& index);
  Value subscript(const Node& at);
  Value ratio(const Node& at);
  template <class Entry>
  Value matrix(std::size_t size, std::size_t columns, const Entry& entry);
  Value matrix_product(const Node& at);
  Value as_written(const Node& at);

  Budget& budget_;
  bool upper_;
  std::string_view variable_;
  const Value* assigned_ = nullptr;
};

}  // namespace qrl::reward::math

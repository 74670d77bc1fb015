// Owns arithmetic modulo primes: F_p, its extension by i with i² = −1, and F_q for exponents. Knows nothing of the
// expressions that are computed in them.
//
// p = 2q + 1 with q prime and p ≡ 7 mod 8. Why such primes: the squares of F_p form a group of prime order q, so that
// every square has one root of every order that is a square again, roots multiply as the positive real roots do, and
// b^E for a square b needs E modulo q only. −1 is no square, so F_p extended by i is a field. 2, 3, 5, …, 23 are
// squares modulo the primes used here.
#pragma once

#include <cstdint>

namespace qrl::reward::math {

/// Montgomery arithmetic modulo an odd m < 2^62. Elements are held multiplied by 2^64.
class Modulus {
 public:
  explicit constexpr Modulus(std::uint64_t m) noexcept : m_(m) {
    std::uint64_t inverse = m;  // m·m ≡ 1 mod 8: five doublings of the bits that are right give 64
    for (int i = 0; i < 5; ++i) inverse *= 2 - m * inverse;
    negative_inverse_ = ~inverse + 1;
    std::uint64_t r = 1;
    for (int i = 0; i < 128; ++i) {
      r = r * 2 >= m ? r * 2 - m : r * 2;
      if (i == 63) one_ = r;
    }
    r_squared_ = r;
  }

  constexpr std::uint64_t modulus() const noexcept { return m_; }
  constexpr std::uint64_t one() const noexcept { return one_; }
  constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) const noexcept {
    const std::uint64_t s = a + b;
    return s >= m_ ? s - m_ : s;
  }
  constexpr std::uint64_t negate(std::uint64_t a) const noexcept { return a == 0 ? 0 : m_ - a; }
  constexpr std::uint64_t subtract(std::uint64_t a, std::uint64_t b) const noexcept { return add(a, negate(b)); }
  constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) const noexcept {
    return reduce(static_cast<unsigned __int128>(a) * b);
  }
  constexpr std::uint64_t from(std::uint64_t value) const noexcept { return multiply(value % m_, r_squared_); }
  constexpr std::uint64_t from_signed(std::int64_t value) const noexcept {
    return value < 0 ? negate(from(~static_cast<std::uint64_t>(value) + 1)) : from(static_cast<std::uint64_t>(value));
  }
  /// The residue itself, 0 to m − 1.
  constexpr std::uint64_t residue(std::uint64_t a) const noexcept { return reduce(a); }
  constexpr std::uint64_t power(std::uint64_t a, std::uint64_t n) const noexcept {
    std::uint64_t result = one_;
    for (; n != 0; n >>= 1) {
      if ((n & 1) != 0) result = multiply(result, a);
      a = multiply(a, a);
    }
    return result;
  }
  /// m prime; 0 for 0.
  constexpr std::uint64_t inverse(std::uint64_t a) const noexcept { return power(a, m_ - 2); }

 private:
  constexpr std::uint64_t reduce(unsigned __int128 t) const noexcept {
    const std::uint64_t k = static_cast<std::uint64_t>(t) * negative_inverse_;
    const auto s = static_cast<std::uint64_t>((t + static_cast<unsigned __int128>(k) * m_) >> 64);
    return s >= m_ ? s - m_ : s;
  }

  std::uint64_t m_, negative_inverse_ = 0, one_ = 0, r_squared_ = 0;
};

/// re + im·i over F_p, both held as Modulus does.
struct Element {
  std::uint64_t re = 0, im = 0;
  bool is_zero() const noexcept { return re == 0 && im == 0; }
  friend bool operator==(Element, Element) = default;
};

/// One of the fields. Results of functions without a stated exception are exact field operations.
class Field {
 public:
  explicit constexpr Field(std::uint64_t prime) noexcept : p_(prime), q_((prime - 1) / 2) {}

  const Modulus& p() const noexcept { return p_; }
  const Modulus& q() const noexcept { return q_; }  ///< of exponents

  Element add(Element a, Element b) const noexcept { return {p_.add(a.re, b.re), p_.add(a.im, b.im)}; }
  Element negate(Element a) const noexcept { return {p_.negate(a.re), p_.negate(a.im)}; }
  Element multiply(Element a, Element b) const noexcept;
  Element inverse(Element a) const noexcept;  ///< 0 for 0
  Element power(Element a, std::uint64_t n) const noexcept;
  bool is_square(std::uint64_t a) const noexcept { return p_.power(a, q_.modulus()) == p_.one(); }  ///< a ≠ 0, in F_p

 private:
  Modulus p_, q_;
};

inline Element Field::multiply(Element a, Element b) const noexcept {
  if (a.im == 0 && b.im == 0) return {p_.multiply(a.re, b.re), 0};
  return {p_.subtract(p_.multiply(a.re, b.re), p_.multiply(a.im, b.im)),
          p_.add(p_.multiply(a.re, b.im), p_.multiply(a.im, b.re))};
}

inline Element Field::inverse(Element a) const noexcept {
  if (a.im == 0) return {p_.inverse(a.re), 0};
  const std::uint64_t norm = p_.inverse(p_.add(p_.multiply(a.re, a.re), p_.multiply(a.im, a.im)));
  return {p_.multiply(a.re, norm), p_.negate(p_.multiply(a.im, norm))};
}

inline Element Field::power(Element a, std::uint64_t n) const noexcept {
  if (a.im == 0) return {p_.power(a.re, n), 0};
  Element result{p_.one(), 0};
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = multiply(result, a);
    a = multiply(a, a);
  }
  return result;
}

/// Two primes below 2^61 (our choice). Two different answers agree in both fields by chance with a probability of at
/// most (d + h) / 2^54 each: d the degree of their difference in the random values of its variables, h its number of
/// prime factors above 2^60; both are bounded by the length of the answers.
inline constexpr Field kFields[2] = {Field(2305843009213542959ull), Field(2305843009213057079ull)};

}  // namespace qrl::reward::math

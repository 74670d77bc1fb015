// Owns arithmetic modulo primes. Knows nothing of the expressions that are computed in them.
#pragma once

#include <cstdint>

#include "base/rational.h"

namespace qrl::reward::math {

/// The integers modulo a prime p ≡ 1 mod 4 below 2^62, where −1 has a root. Elements are 0 to p − 1.
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
  std::uint64_t from(base::Rational q) const noexcept {
    return q.is_integer() ? from(q.numerator) : multiply(from(q.numerator), inverse(from(q.denominator)));
  }
};

/// Two different numbers agree in both only where both primes divide the numerator of their difference. Two different
/// functions of degree d agree in one at a random place with a probability of at most d / 2^61.
inline constexpr Field kFields[2] = {{4611686018427387817u, 4490822397581186023u},
                                     {4611686018427387761u, 3481184452870754207u}};

}  // namespace qrl::reward::math

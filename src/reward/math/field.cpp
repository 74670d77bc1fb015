#include "reward/math/field.h"

namespace qrl::reward::math {

Element Field::multiply(Element a, Element b) const noexcept {
  if (a.im == 0 && b.im == 0) return {p_.multiply(a.re, b.re), 0};
  return {p_.subtract(p_.multiply(a.re, b.re), p_.multiply(a.im, b.im)),
          p_.add(p_.multiply(a.re, b.im), p_.multiply(a.im, b.re))};
}

Element Field::inverse(Element a) const noexcept {
  if (a.im == 0) return {p_.inverse(a.re), 0};
  const std::uint64_t norm = p_.inverse(p_.add(p_.multiply(a.re, a.re), p_.multiply(a.im, a.im)));
  return {p_.multiply(a.re, norm), p_.negate(p_.multiply(a.im, norm))};
}

Element Field::power(Element a, std::uint64_t n) const noexcept {
  if (a.im == 0) return {p_.power(a.re, n), 0};
  Element result{p_.one(), 0};
  for (; n != 0; n >>= 1) {
    if ((n & 1) != 0) result = multiply(result, a);
    a = multiply(a, a);
  }
  return result;
}

Element Field::square_root(Element a) const noexcept {
  if (a.is_zero()) return {};
  const std::uint64_t quarter = (p_.modulus() + 1) / 4;  // p ≡ 3 mod 4: s^((p+1)/4) is the root of s that is a square
  if (a.im == 0) {
    if (is_square(a.re)) return {p_.power(a.re, quarter), 0};
    return {0, p_.power(p_.negate(a.re), quarter)};
  }
  // (x + yi)² = a: x² = (re + n)/2 with n a root of the norm re² + im², y = im / 2x.
  const std::uint64_t norm = p_.add(p_.multiply(a.re, a.re), p_.multiply(a.im, a.im));
  if (!is_square(norm)) return {};
  const std::uint64_t half = p_.inverse(p_.from(2));
  std::uint64_t n = p_.power(norm, quarter);
  std::uint64_t x_squared = p_.multiply(p_.add(a.re, n), half);
  if (x_squared == 0 || !is_square(x_squared)) {
    n = p_.negate(n);
    x_squared = p_.multiply(p_.add(a.re, n), half);
  }
  const std::uint64_t x = p_.power(x_squared, quarter);
  return {x, p_.multiply(a.im, p_.inverse(p_.add(x, x)))};
}

}  // namespace qrl::reward::math

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

}  // namespace qrl::reward::math

// Powers, roots and logarithms of Algebra.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reward/math/value.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxLogarithms = 20;  // that are remembered

struct PrimeFactor {
  std::uint64_t prime;  ///< or what is left above the bound of the search
  std::int64_t exponent;
};

/// By trial division up to 2,000; what is left counts as one prime.
void factorize(std::int64_t n, std::int64_t sign, std::vector<PrimeFactor>& factors) {
  auto rest = static_cast<std::uint64_t>(n);
  for (std::uint64_t d = 2; d <= 2000 && d * d <= rest; d += d == 2 ? 1 : 2) {
    if (rest % d != 0) continue;
    factors.push_back({d, 0});
    for (; rest % d == 0; rest /= d) factors.back().exponent += sign;
  }
  if (rest != 1) factors.push_back({rest, sign});
}

std::vector<PrimeFactor> factorize(Rational q) {
  std::vector<PrimeFactor> factors;
  factorize(q.numerator, 1, factors);
  factorize(q.denominator, -1, factors);
  return factors;
}

/// n > 0. A power that has left the numbers' range ends it: products of infinities and NaN are a hundred times as slow.
Complex numeric_power(Complex base, std::int64_t n) {
  Complex power = 1;
  for (Complex square = base;; n >>= 1, square *= square) {
    if ((n & 1) != 0) power *= square;
    if (n == 1) return power;
    const long double size = std::abs(square.real()) + std::abs(square.imag());
    if (!(size < std::numeric_limits<long double>::max())) return std::numeric_limits<long double>::infinity();
  }
}

Complex numeric_power(Complex base, Complex exponent) {
  return base == Complex(0) ? base : std::exp(exponent * std::log(base));
}

}  // namespace

Value Arithmetic::integer_power(const Value& base, std::int64_t n) const noexcept {
  if (base.undefined || base.infinite != 0) return undefined();
  if (n == 0) return base.is_zero() ? undefined() : rational({1, 1});
  if (n < 0) return divide(rational({1, 1}), integer_power(base, -n));
  if (base.is_rational()) {
    if (const auto q = base::power(base.exact->q, n)) return rational(*q);
  }
  Value value;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Field& field = field_of(lane);
    const Exponent& g = base.g[lane];
    value.f[lane] = field.power(base.f[lane], static_cast<std::uint64_t>(n));
    value.g[lane] = {field.q().power(g.residue, static_cast<std::uint64_t>(n)), g.parity, g.known};
    value.z[lane] = numeric_power(base.z[lane], n);
  }
  return value;
}

/// Chooses the sign of a root of `radicand`, known up to it. The same radicand has the same sign everywhere.
Element Algebra::with_sign(std::size_t lane, Element radicand, Element root) {
  auto& roots = roots_[lane];
  const auto at = static_cast<std::size_t>(std::find(roots.begin(), roots.end(), radicand) - roots.begin());
  if (at == roots.size()) roots.push_back(radicand);
  return at < 32 && ((signs_ >> at) & 1u) != 0 ? field_of(lane).negate(root) : root;
}

/// The image of base^exponent for an exponent that is no integer; 0 where there is no law for it. `fixed_sign`: base is
/// a positive rational prime, so that the root taken may be any as long as it is always the same.
Element Algebra::power_image(std::size_t lane, Element base, const Value& exponent, bool fixed_sign) {
  const Field& field = field_of(lane);
  const Exponent g = exponent_or_key(exponent, lane);
  const bool halves = exponent.is_rational() && exponent.exact->q.denominator % 2 == 0;
  if (base.im != 0) return {};
  Element image;
  if (field.is_square(base.re)) {
    image = {field.p().power(base.re, field.q().residue(g.residue)), 0};
  } else {
    image = {field.p().power(field.p().negate(base.re), field.q().residue(g.residue)), 0};
    if (g.parity == Exponent::odd) {
      image = field.negate(image);
    } else if (g.parity == Exponent::none) {
      if (!halves || exponent.exact->q.denominator % 4 == 0) return {};
      // (−1)^(n/2m) for odd m as the n·m-th power of i: m inverts itself modulo 4.
      const auto turns = static_cast<std::uint64_t>(
          (((exponent.exact->q.numerator % 4) * ((exponent.exact->q.denominator / 2) % 4)) % 4 + 4) % 4);
      image = field.multiply(image, field.power({0, field.p().one()}, turns));
    }
  }
  return halves && !fixed_sign ? with_sign(lane, base, image) : image;
}

Value Algebra::prime_power(std::uint64_t prime, const Value& exponent) const noexcept {
  Value value = opaque("prime^", {rational({static_cast<std::int64_t>(prime), 1}), exponent});
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Element base{field_of(lane).p().from(prime), 0};
    const Element image = const_cast<Algebra*>(this)->power_image(lane, base, exponent, true);
    if (!image.is_zero()) value.f[lane] = image;
    value.g[lane].known = false;
    value.z[lane] = numeric_power(static_cast<long double>(prime), exponent.z[lane]);
  }
  return value;
}

/// base > 0.
Value Algebra::rational_power(Rational base, const Value& exponent) {
  Value value = rational({1, 1});
  for (const PrimeFactor& factor : factorize(base)) {
    const Value n = multiply(exponent, integer(factor.exponent));
    const Value prime = integer(static_cast<std::int64_t>(factor.prime));
    value = multiply(value, n.is_integer() ? integer_power(prime, n.exact->q.numerator) : prime_power(factor.prime, n));
  }
  return value;
}

Value Algebra::power(const Value& base, const Value& exponent) {
  if (base.undefined || exponent.undefined) return undefined();
  if (!logarithms_.empty() && !exponent.exact && !base.is_zero()) {  // e^(ln x), 5^(log₅ 3)
    const Value undone = multiply(exponent, logarithm(base));
    const auto found = std::ranges::find(logarithms_, undone.f, [](const auto& pair) { return pair.first; });
    if (found != logarithms_.end()) return found->second;
  }
  if (base.infinite != 0 || exponent.infinite != 0) return opaque("^", {base, exponent});
  if (exponent.is_integer()) return integer_power(base, exponent.exact->q.numerator);
  if (base.is_zero()) return exponent.is_rational() && exponent.exact->q.numerator > 0 ? base : undefined();
  if (base.is_rational()) {
    const Rational q = base.exact->q;
    if (q.numerator > 0) return rational_power(q, exponent);
    const Value magnitude = rational_power({-q.numerator, q.denominator}, exponent);
    if (exponent.is_rational()) {
      const Rational n = exponent.exact->q;
      if (n.denominator % 2 != 0) return n.numerator % 2 != 0 ? negate(magnitude) : magnitude;  // the real root
      return multiply(magnitude, circle(multiply(exponent, pi())));
    }
  }
  Value value = opaque("^", {base, exponent});
  const bool of_e = base.f == e().f;
  const bool odd_root = exponent.is_rational() && exponent.exact->q.denominator % 2 != 0;
  if (of_e && exponent.exact && exponent.exact->pi && exponent.exact->i) {
    return circle(divide(exponent, i()));
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Element image = power_image(lane, base.f[lane], exponent, of_e);
    if (!image.is_zero()) value.f[lane] = image;
    value.g[lane].known = false;
    const Complex z = base.z[lane];
    const bool real_root = odd_root && z.imag() == 0 && z.real() < 0;
    value.z[lane] = numeric_power(real_root ? -z : z, exponent.z[lane]);
    if (real_root && exponent.exact->q.numerator % 2 != 0) value.z[lane] = -value.z[lane];
  }
  return value;
}

Value Algebra::logarithm(const Value& a) {
  if (a.undefined || a.is_zero()) return undefined();
  if (a.infinite > 0) return infinity(1);
  const auto atom = [this](const Value& argument) {
    return opaque("ln", {argument}, by_lane([&](std::size_t lane) { return std::log(argument.z[lane]); }));
  };
  Value value = integer(0);
  if (a.f == e().f) return integer(1);
  if (!a.is_rational() || a.exact->q.numerator < 0) {
    value = atom(a);
  } else {  // the sum over its prime factors
    for (const PrimeFactor& factor : factorize(a.exact->q))
      value = add(value, multiply(integer(factor.exponent), atom(integer(static_cast<std::int64_t>(factor.prime)))));
  }
  if (logarithms_.size() < kMaxLogarithms) logarithms_.emplace_back(value.f, a);
  return value;
}

}  // namespace qrl::reward::math

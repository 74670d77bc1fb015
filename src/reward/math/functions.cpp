// Functions of Algebra other than powers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "reward/math/value.h"

namespace qrl::reward::math {

namespace {

constexpr std::int64_t kFewFactors = 1'000'000'000'000'000;
constexpr std::int64_t kMaxFactors = 64, kMaxFallingFactors = 8;  // of numbers, of symbols

/// (√first ± √second) / below: the cosine of π/denominator and its conjugate.
struct Radical {
  std::int64_t denominator, first, second, below;
};
constexpr Radical kRadicals[] = {{1, 1, 0, 1}, {2, 0, 0, 1}, {3, 1, 0, 2}, {4, 2, 0, 2},
                                 {5, 5, 1, 4}, {6, 3, 0, 2}, {12, 6, 2, 4}};

}  // namespace

Value Algebra::factorial(const Value& n) const {
  if (n.is_integer() && n.exact->q.numerator < 0) return undefined();
  if (n.is_integer() && n.exact->q.numerator <= kMaxFactorial) {
    Value value = integer(1);
    std::int64_t product = 1;  // of a few factors, which are one factor then
    for (std::int64_t k = 2; k <= n.exact->q.numerator; ++k) {
      product *= k;
      if (product < kFewFactors && k < n.exact->q.numerator) continue;
      value = multiply(value, integer(product));
      product = 1;
    }
    return value;
  }
  return opaque("factorial", {n}, by_lane([&](std::size_t lane) { return std::tgamma(n.z[lane].real() + 1); }));
}

Value Algebra::binomial(const Value& n, const Value& k) const {
  const bool whole = n.is_integer() && k.is_integer() && n.exact->q.numerator >= 0;
  if (whole && (k.exact->q.numerator < 0 || k.exact->q.numerator > n.exact->q.numerator)) return integer(0);
  // n(n − 1)…(n − k + 1)/k! where k or n − k is a small number
  const Value rest = subtract(n, k);
  const std::int64_t most = whole ? kMaxFactors : kMaxFallingFactors;
  for (std::int64_t j = 0; j <= most; ++j) {
    if (!equal(k, integer(j)) && !equal(rest, integer(j))) continue;
    Value value = integer(1);
    for (std::int64_t i = 0; i < j; ++i) value = divide(multiply(value, subtract(n, integer(i))), integer(i + 1));
    return value;
  }
  return divide(factorial(n), multiply(factorial(k), factorial(rest)));
}

Value Algebra::absolute(const Value& a) {
  if (a.undefined) return a;
  if (a.infinite != 0) return infinity(1);
  if (const auto real = a.real()) return *real < 0 ? negate(a) : a;
  if (a.z[0] == a.z[1] && a.z[0] == a.z[2]) {  // a complex constant
    Value conjugate = a;
    conjugate.exact.reset();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      conjugate.f[lane].im = field_of(lane).p().negate(a.f[lane].im);
      conjugate.z[lane] = std::conj(a.z[lane]);
    }
    return power(multiply(a, conjugate), rational({1, 2}));
  }
  // |a| = |−a|
  return opaque("abs", {multiply(a, a)}, by_lane([&](std::size_t lane) { return std::abs(a.z[lane]); }));
}

/// cos(qπ): by radicals where the denominator of q is up to 6, or 12.
Value Algebra::cosine_of_pi(Rational q) {
  const std::int64_t d = q.denominator;
  std::int64_t n = ((q.numerator % (2 * d)) + 2 * d) % (2 * d);  // 0 ≤ n/d < 2
  if (n > d) n = 2 * d - n;                                      // cos(2π − x) = cos x
  const bool negative = 2 * n > d;
  if (negative) n = d - n;  // cos(π − x) = −cos x; now 0 ≤ n/d ≤ 1/2
  const std::int64_t divisor = std::gcd(n, d), a = n / divisor, b = d / divisor;
  const auto root = [this](const Value& v) { return power(v, rational({1, 2})); };
  const auto* radical = std::ranges::find(kRadicals, b, &Radical::denominator);
  Value value;
  if (radical == std::end(kRadicals)) {
    const long double z = std::cos(static_cast<long double>(a) / static_cast<long double>(b) * kPi);
    value = opaque("cos", {rational({a, b})}, by_lane([z](std::size_t) { return z; }));
  } else {
    const Value second = root(integer(radical->second));
    value = divide(add(root(integer(radical->first)), a == 1 ? second : negate(second)), integer(radical->below));
  }
  return negative ? negate(value) : value;
}

/// e^(i·angle).
Value Algebra::circle(const Value& angle) {
  if (angle.undefined || angle.infinite != 0) return undefined();
  const bool turns = angle.is_zero() || (angle.exact && angle.exact->pi && !angle.exact->i);
  if (turns) {
    const Rational q = angle.exact->q;
    const auto shifted = difference({1, 2}, q);  // sin x = cos(π/2 − x)
    if (!shifted) return undefined();
    return add(cosine_of_pi(q), multiply(i(), cosine_of_pi(*shifted)));
  }
  const Value imaginary = i();
  Value value = e();
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Field& field = field_of(lane);
    const std::uint64_t g = field.q().multiply(imaginary.g[lane].residue, exponent_or_key(angle, lane).residue);
    value.f[lane] = {field.p().power(value.f[lane].re, field.q().residue(g)), 0};
    value.g[lane].known = false;
    value.z[lane] = std::exp(Complex(0, 1) * angle.z[lane]);
  }
  return value;
}

Value Algebra::trigonometric(Trig which, const Value& angle) {
  if (angle.undefined || angle.infinite != 0) return undefined();
  if (which == Trig::tan) return divide(trigonometric(Trig::sin, angle), trigonometric(Trig::cos, angle));
  if (angle.is_zero() || (angle.exact && angle.exact->pi && !angle.exact->i)) {
    if (which == Trig::cos) return cosine_of_pi(angle.exact->q);
    const auto shifted = difference({1, 2}, angle.exact->q);
    return shifted ? cosine_of_pi(*shifted) : undefined();
  }
  const Value up = circle(angle);
  const Value down = circle(negate(angle));
  if (which == Trig::cos) return divide(add(up, down), integer(2));
  return divide(subtract(up, down), multiply(integer(2), i()));
}

Value Algebra::hyperbolic(Trig which, const Value& a) {
  if (which == Trig::tan) return divide(hyperbolic(Trig::sin, a), hyperbolic(Trig::cos, a));
  const Value up = power(e(), a);
  const Value down = power(e(), negate(a));
  return divide(which == Trig::cos ? add(up, down) : subtract(up, down), integer(2));
}

/// A rational part of π where it is one with a denominator up to 12, as the function of it confirms.
Value Algebra::inverse_trigonometric(Trig which, const Value& a) {
  if (a.undefined || a.infinite != 0) return undefined();
  const auto inverse = [which](Complex z) {
    if (z.imag() == 0 && (which == Trig::tan || std::abs(z.real()) <= 1)) {
      const long double x = z.real();
      return Complex(which == Trig::sin ? std::asin(x) : which == Trig::cos ? std::acos(x) : std::atan(x));
    }
    return which == Trig::sin ? std::asin(z) : which == Trig::cos ? std::acos(z) : std::atan(z);
  };
  const Numbers numeric = by_lane([&](std::size_t lane) { return inverse(a.z[lane]); });
  if (a.real() && numeric[0].imag() == 0) {
    const long double turns = numeric[0].real() / kPi * 120;  // 120: a multiple of all denominators of cosine_of_pi
    const long double nearest = std::nearbyint(turns);
    if (std::abs(turns - nearest) < 1e-12L) {
      const auto q = base::quotient({static_cast<std::int64_t>(nearest), 1}, {120, 1});
      const Value angle = multiply(rational(*q), pi());
      if (equal(trigonometric(which, angle), a)) return angle;
    }
  }
  constexpr const char* kKeys = "sct";
  return opaque({kKeys + static_cast<std::size_t>(which), 1}, {a}, numeric);
}

Value Algebra::rounded(const Value& a, bool up) const {
  if (a.is_rational()) {
    const Rational q = a.exact->q;
    std::int64_t whole = q.numerator / q.denominator;
    if (q.numerator % q.denominator != 0) whole += up ? (q.numerator > 0 ? 1 : 0) : (q.numerator < 0 ? -1 : 0);
    return integer(whole);
  }
  if (const auto real = a.real(); real && std::abs(*real) < 1e15L && std::abs(*real - std::nearbyint(*real)) > 1e-9L) {
    return integer(static_cast<std::int64_t>(up ? std::ceil(*real) : std::floor(*real)));
  }
  const auto whole = [&](std::size_t lane) { return up ? std::ceil(a.z[lane].real()) : std::floor(a.z[lane].real()); };
  return opaque(up ? "ceil" : "floor", {a}, by_lane(whole));
}

Value Algebra::modulo(const Value& a, const Value& b) const {
  if (!a.is_integer() || !b.is_integer() || b.exact->q.numerator <= 0) return opaque("mod", {a, b});
  const std::int64_t m = b.exact->q.numerator;
  return integer((a.exact->q.numerator % m + m) % m);
}

Value Algebra::common_divisor(const Value& a, const Value& b) const {
  if (!a.is_integer() || !b.is_integer()) return opaque("gcd", {multiply(a, b), add(a, b)});
  return integer(std::gcd(a.exact->q.numerator, b.exact->q.numerator));
}

}  // namespace qrl::reward::math

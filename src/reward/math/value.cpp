#include "reward/math/value.h"

#include <algorithm>
#include <cmath>

namespace qrl::reward::math {

namespace {

std::uint64_t mix(std::uint64_t x) noexcept {  // the finaliser of splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::uint64_t hash(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t h = mix(seed ^ text.size());
  for (const char c : text) h = mix(h ^ static_cast<unsigned char>(c));
  return h;
}

/// A pseudo-random square of F_p.
Element random_square(const Field& field, std::uint64_t key) noexcept {
  const std::uint64_t root = field.p().from(mix(key) >> 3) | 1;
  return {field.p().multiply(root, root), 0};
}

Exponent random_exponent(const Field& field, std::uint64_t key) noexcept {
  return {field.q().from(mix(key ^ 0x5851f42d4c957f2dull) >> 3), Exponent::none, true};
}

Exponent exponent_of(const Field& field, Rational q) noexcept {
  const Modulus& m = field.q();
  Exponent g;
  g.residue = m.from_signed(q.numerator);
  if (q.denominator != 1) g.residue = m.multiply(g.residue, m.inverse(m.from_signed(q.denominator)));
  if (q.denominator % 2 != 0) g.parity = q.numerator % 2 != 0 ? Exponent::odd : Exponent::even;
  g.known = true;
  return g;
}

constexpr std::int64_t kSomeDigits = 1'000'000'000'000'000;

bool usable(const Complex& z) noexcept {
  return std::isfinite(z.real()) && std::isfinite(z.imag()) && (z == Complex(0) || std::norm(z) > 0);
}

}  // namespace

Exponent exponent_or_key(const Value& value, std::size_t lane) noexcept {
  if (value.g[lane].known) return value.g[lane];
  return random_exponent(field_of(lane), mix(value.f[lane].re) ^ mix(value.f[lane].im + 1) ^ lane);
}

std::optional<long double> Value::real() const noexcept {
  if (infinite != 0 || undefined || !std::isfinite(z[0].real())) return std::nullopt;
  for (const Complex& other : z) {
    if (std::abs(other.imag()) > 1e-12L * (1 + std::abs(other.real()))) return std::nullopt;
    if (std::abs(other.real() - z[0].real()) > 1e-12L * (1 + std::abs(z[0].real()))) return std::nullopt;
  }
  return z[0].real();
}

std::size_t Algebra::num_ambiguous_roots() const noexcept {
  return std::max({roots_[0].size(), roots_[1].size(), roots_[2].size()});
}

/// Brings images and approximation in line with a known exact form of no π: the image as an exponent may not be known
/// from the operands (6/2 has a parity though 1/2 has none).
void Arithmetic::settle(Value& value) const noexcept {
  if (!value.is_rational()) return;
  for (std::size_t lane = 0; lane < kLanes; ++lane) value.g[lane] = exponent_of(field_of(lane), value.exact->q);
}

Value Arithmetic::rational(Rational q) const noexcept {
  Value value;
  value.exact = Exact{q};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Modulus& m = field_of(lane).p();
    value.f[lane].re = m.from_signed(q.numerator);
    if (q.denominator != 1) value.f[lane].re = m.multiply(value.f[lane].re, m.inverse(m.from_signed(q.denominator)));
    value.z[lane] = static_cast<long double>(q.numerator) / static_cast<long double>(q.denominator);
  }
  settle(value);
  return value;
}

Value Arithmetic::digits(std::string_view text, std::int64_t exponent, unsigned base) const noexcept {
  Value value = integer(0);
  std::int64_t some = 0, scale = 1;  // digits that are not in the value yet, and what they move it by
  std::size_t places = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '.') places = text.size() - k - 1;
    else some = some * base + text[k] - '0', scale *= base;
    if (scale < kSomeDigits && k + 1 < text.size()) continue;
    value = add(multiply(value, integer(scale)), integer(some));
    some = 0, scale = 1;
  }
  exponent -= static_cast<std::int64_t>(places);
  return exponent == 0 ? value : multiply(value, integer_power(integer(10), exponent));
}

Value Arithmetic::infinity(int sign) const noexcept {
  Value value;
  value.infinite = static_cast<std::int8_t>(sign);
  return value;
}

Value Arithmetic::undefined() const noexcept {
  Value value;
  value.undefined = true;
  return value;
}

Value Arithmetic::opaque(std::string_view name, const std::vector<Value>& arguments,
                         const std::optional<Numbers>& numeric) const noexcept {
  Value value;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::uint64_t key = hash(name, lane * 2 + 1);
    for (const Value& argument : arguments) {
      if (argument.undefined) return undefined();
      key = mix(key ^ argument.f[lane].re);
      key = mix(key ^ argument.f[lane].im ^ static_cast<std::uint64_t>(argument.infinite + 1));
    }
    value.f[lane] = random_square(field_of(lane), key);
    value.g[lane] = random_exponent(field_of(lane), key);
    value.z[lane] = numeric ? (*numeric)[lane] : 1 + static_cast<long double>(mix(key) >> 40) / (1 << 24);
  }
  return value;
}

Value Algebra::symbol(std::string_view name) const noexcept {
  Value value = opaque(name, {});
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t sample = 3 + (hash(name, 77 + 2 * round_) + 11 * lane) % 29;  // another in each lane
    value.z[lane] = static_cast<long double>(sample);
    value.g[lane].parity = sample % 2 != 0 ? Exponent::odd : Exponent::even;
  }
  return value;
}

Value Arithmetic::pi() const noexcept {
  Value value = opaque("\\pi", {}, by_lane([](std::size_t) { return kPi; }));
  value.exact = Exact{{1, 1}, true, false};
  return value;
}

Value Arithmetic::e() const noexcept {
  return opaque("\\e", {}, by_lane([](std::size_t) { return kE; }));
}

Value Arithmetic::i() const noexcept {
  Value value = opaque("\\i", {}, by_lane([](std::size_t) { return Complex(0, 1); }));
  for (std::size_t lane = 0; lane < kLanes; ++lane) value.f[lane] = {0, field_of(lane).p().one()};
  value.exact = Exact{{1, 1}, false, true};
  return value;
}

Value Arithmetic::add(const Value& a, const Value& b) const noexcept {
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  if (!a.is_number() || !b.is_number()) return undefined();
  Value value;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Field& field = field_of(lane);
    const Exponent& x = a.g[lane];
    const Exponent& y = b.g[lane];
    value.f[lane] = field.add(a.f[lane], b.f[lane]);
    value.g[lane] = {field.q().add(x.residue, y.residue), Exponent::none, x.known && y.known};
    if (x.parity != Exponent::none && y.parity != Exponent::none) {
      value.g[lane].parity = x.parity == y.parity ? Exponent::even : Exponent::odd;
    }
    value.z[lane] = a.z[lane] + b.z[lane];
  }
  if (a.exact && b.exact && a.exact->pi == b.exact->pi && a.exact->i == b.exact->i) {
    if (const auto q = sum(a.exact->q, b.exact->q)) value.exact = Exact{*q, a.exact->pi, a.exact->i};
    if (value.is_zero()) return rational({0, 1});
  }
  settle(value);
  return value;
}

Value Arithmetic::negate(const Value& a) const noexcept {
  Value value = a;
  value.infinite = static_cast<std::int8_t>(-a.infinite);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    value.f[lane] = field_of(lane).negate(a.f[lane]);
    value.g[lane].residue = field_of(lane).q().negate(a.g[lane].residue);
    value.z[lane] = -a.z[lane];
  }
  if (value.exact) value.exact->q.numerator = -value.exact->q.numerator;
  return value;
}

Value Arithmetic::multiply(const Value& a, const Value& b) const noexcept {
  if (!a.is_number() || !b.is_number()) return undefined();
  Value value;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Field& field = field_of(lane);
    const Exponent& x = a.g[lane];
    const Exponent& y = b.g[lane];
    value.f[lane] = field.multiply(a.f[lane], b.f[lane]);
    value.g[lane] = {field.q().multiply(x.residue, y.residue), Exponent::none, x.known && y.known};
    if (x.parity != Exponent::none && y.parity != Exponent::none) {
      value.g[lane].parity = x.parity == Exponent::odd && y.parity == Exponent::odd ? Exponent::odd : Exponent::even;
    }
    value.z[lane] = a.z[lane] * b.z[lane];
  }
  if (a.is_zero() || b.is_zero()) return rational({0, 1});
  if (a.exact && b.exact && !(a.exact->pi && b.exact->pi)) {
    auto q = product(a.exact->q, b.exact->q);
    if (q && a.exact->i && b.exact->i) q->numerator = -q->numerator;
    if (q) value.exact = Exact{*q, a.exact->pi || b.exact->pi, a.exact->i != b.exact->i};
  }
  settle(value);
  return value;
}

Value Arithmetic::divide(const Value& a, const Value& b) const noexcept {
  if (!a.is_number() || !b.is_number() || b.is_zero()) return undefined();
  Value inverse;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const Field& field = field_of(lane);
    if (b.f[lane].is_zero()) return undefined();
    inverse.f[lane] = field.inverse(b.f[lane]);
    const Exponent& g = b.g[lane];
    inverse.g[lane] = {field.q().inverse(g.residue), Exponent::none, g.known && g.residue != 0};
    if (g.parity == Exponent::odd) inverse.g[lane].parity = Exponent::odd;
    inverse.z[lane] = Complex(1) / b.z[lane];
  }
  if (b.exact && !b.exact->pi) {
    auto q = quotient({1, 1}, b.exact->q);
    if (q && b.exact->i) q->numerator = -q->numerator;
    if (q) inverse.exact = Exact{*q, false, b.exact->i};
  }
  settle(inverse);
  return multiply(a, inverse);
}

bool near(const Value& a, const Value& b) noexcept {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (!usable(a.z[lane]) || !usable(b.z[lane])) continue;
    const long double scale = std::max(std::abs(a.z[lane]), std::abs(b.z[lane]));
    if (std::abs(a.z[lane] - b.z[lane]) > 1e-9L * scale + 1e-15L) return false;
  }
  return true;
}

bool equal(const Value& a, const Value& b, unsigned* lanes) noexcept {
  if (lanes != nullptr) *lanes = 0;
  if (a.undefined || b.undefined) return false;
  if (a.infinite != 0 || b.infinite != 0) return a.infinite == b.infinite;
  if (a.exact && b.exact) return a.exact == b.exact;
  if (!near(a, b)) return false;
  unsigned same = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) same |= (a.f[lane] == b.f[lane] ? 1u : 0u) << lane;
  if (lanes != nullptr) *lanes = same;
  return same == (1u << kLanes) - 1;
}

}  // namespace qrl::reward::math

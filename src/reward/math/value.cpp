#include <algorithm>
#include <cmath>
#include <utility>

#include "reward/math/evaluate.h"

// Declares 128-bit functions, which the C library's headers declare only for GCC.
extern "C" {
using OfReal = __float128(__float128) noexcept;
using OfReals = __float128(__float128, __float128) noexcept;
OfReal expf128, logf128, sinf128, cosf128, tgammaf128, floorf128;
OfReals atan2f128, hypotf128;
}

namespace qrl::reward::math {

namespace {

std::uint64_t mix(std::uint64_t x) noexcept {  // the finalizer of SplitMix64
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

Real fraction_of(std::uint64_t key) noexcept { return 1 + static_cast<Real>(key) * 0x1p-64L; }

// ---- numbers

// kSame: relative difference up to which values count as equal. kNothing: size below which the numerator or denominator
// of a function's value becomes 0.
constexpr Real kSame = 1e-25L, kNothing = 1e-30L;

Real size_of(Complex z) noexcept { return std::max(z.real(), -z.real()) + std::max(z.imag(), -z.imag()); }
bool is_finite(Complex z) noexcept { return size_of(z) - size_of(z) == 0; }

Complex exp(Complex z) noexcept {
  const Real size = expf128(z.real());
  return z.imag() == 0 ? size : Complex(size * cosf128(z.imag()), size * sinf128(z.imag()));
}
Complex log(Complex z) noexcept {
  return {logf128(hypotf128(z.real(), z.imag())), atan2f128(z.imag() + 0, z.real())};  // + 0 turns −0 into 0
}
Complex turned(Complex z) noexcept { return {-z.imag(), z.real()}; }  // times i
Complex one(Complex) noexcept { return 1; }
Complex pi(Complex) noexcept { return log(-1).imag(); }
Complex ln10(Complex) noexcept { return log(10); }
Complex sinh(Complex z) noexcept { return (exp(z) - exp(-z)) * Real(0.5); }
Complex cosh(Complex z) noexcept { return (exp(z) + exp(-z)) * Real(0.5); }
Complex sin(Complex z) noexcept { return -turned(sinh(turned(z))); }
Complex cos(Complex z) noexcept { return cosh(turned(z)); }
Complex arcsin(Complex z) noexcept { return -turned(log(turned(z) + exp(log(Real(1) - z * z) * Real(0.5)))); }
Complex arccos(Complex z) noexcept { return pi(z) * Real(0.5) - arcsin(z); }
Complex arctan(Complex z) noexcept { return turned(log(Real(1) - turned(z)) - log(Real(1) + turned(z))) * Real(0.5); }

/// A known function, computed as above(z) / below(z).
struct Function {
  Law law;
  Complex (*above)(Complex) noexcept;
  Complex (*below)(Complex) noexcept = one;
};
constexpr Function kFunctions[] = {
    {Law::sin, sin},       {Law::cos, cos},       {Law::tan, sin, cos},    {Law::cot, cos, sin}, {Law::sec, one, cos},
    {Law::csc, one, sin},  {Law::arcsin, arcsin}, {Law::arccos, arccos},   {Law::sinh, sinh},    {Law::cosh, cosh},
    {Law::arctan, arctan}, {Law::exp, exp},       {Law::tanh, sinh, cosh}, {Law::ln, log},       {Law::lg, log, ln10},
};

/// Computes the image if both numbers have one, and the exact form if both have one.
template <class OfImages, class OfExact>
Value joined(const Field& field, const Value& a, const Value& b, Complex z, OfImages of_images, OfExact of_exact) {
  Value value{.z = z, .constant = a.constant && b.constant};
  if (a.image && b.image) value.image = (field.*of_images)(*a.image, *b.image);
  if (a.exact && b.exact) value.exact = of_exact(*a.exact, *b.exact);
  return value;
}

constexpr std::int64_t kSome = 1'000'000'000'000'000;  // bound of intermediate integers: they fit in 64 bits

}  // namespace

bool Value::is_zero() const noexcept {
  if (exact) return exact->numerator == 0;
  return is_number() && (image ? *image == 0 : z == Complex(0));
}

std::optional<long double> Value::real() const noexcept {
  if (!is_number() || !constant || !is_finite(z) || std::max(z.imag(), -z.imag()) > kSame * (1 + size_of(z)))
    return std::nullopt;
  return static_cast<long double>(z.real());
}

bool equal(const Value& a, const Value& b) noexcept {
  if (a.undefined || b.undefined) return false;
  if (a.infinite != 0 || b.infinite != 0) return a.infinite == b.infinite;
  if (a.exact && b.exact) return a.exact == b.exact;
  const bool images = a.image && b.image;
  if (images && *a.image != *b.image) return false;
  if (!is_finite(a.z) || !is_finite(b.z)) return images;
  return size_of(a.z - b.z) <= kSame * std::max(size_of(a.z), size_of(b.z));
}

Value Algebra::number(Complex z, bool constant) const noexcept {
  if (!is_finite(z)) return Value::nothing();
  const Real whole = floorf128(z.real() + Real(0.5));
  const bool is_whole = constant && whole != 0 && size_of(z - whole) < kSame && size_of(z) < kSome;
  return is_whole ? integer(static_cast<std::int64_t>(whole)) : Value{.z = z, .constant = constant};
}

Value Algebra::rational(Rational q) const noexcept {
  const std::uint64_t image = field().from(q.numerator);
  const Real z = static_cast<Real>(q.numerator);
  if (q.is_integer()) return {.exact = q, .image = image, .z = z};
  const std::uint64_t inverse = field().inverse(field().from(q.denominator));
  return {.exact = q, .image = field().multiply(image, inverse), .z = z / static_cast<Real>(q.denominator)};
}

Value Algebra::digits(std::string_view text, std::int64_t exponent, unsigned base) const noexcept {
  Value value = integer(0);
  std::int64_t some = 0, scale = 1;  // digits not yet added, and base to the power of their number
  std::size_t places = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '.') places = text.size() - k - 1;
    else some = some * base + digit_value(text[k]), scale *= base;
    if (scale >= kSome || k + 1 == text.size())
      value = add(multiply(value, integer(std::exchange(scale, 1))), integer(std::exchange(some, 0)));
  }
  exponent -= static_cast<std::int64_t>(places);
  return exponent == 0 ? value : multiply(value, integer_power(integer(10), exponent));
}

Value Algebra::constant(char code) const noexcept {
  Value value = opaque(code);
  value.infinite = code == 'o' ? 1 : 0;
  value.constant = code != '0';
  if (code == 'p') value.z = pi({});
  if (code == 'e') value.z = exp(1);
  if (code == 'i') value.z = {0, 1}, value.image = field().i;
  return value;
}

Value Algebra::symbol(std::string_view name) const noexcept {
  Value value = opaque(name);
  const std::uint64_t key = hash(name, lane_ + 77);
  const Real part = fraction_of(key) - 1;
  value.z = variables_.whole ? Real(3 + key % 29) : Real(0.125) + 6 * part * part;
  if (variables_.signs && mix(key) % 2 != 0) value.z = -value.z;
  const bool is_complex = (name.size() == 1 && has("zw", name[0])) || name.starts_with("\\mathbb");
  if (variables_.signs && is_complex) value.z *= Complex(1, part);
  return value;
}

Value Algebra::opaque(std::string_view name, std::span<const Value> arguments) const noexcept {
  std::uint64_t key = hash(name, lane_);
  Value value{.image = key % field().p, .z = fraction_of(key), .constant = false};
  for (const Value& argument : arguments) {
    if (argument.undefined) return argument;
    key = mix(key ^ static_cast<std::uint64_t>(argument.infinite + 1));
    value.z = value.z * Real(0.5) + argument.z * (fraction_of(key) / (1 + size_of(argument.z)));
    if (!argument.image) value.image.reset();
    if (!value.image) continue;
    const std::uint64_t shift = key % field().p;
    value.image =
        field().add(field().multiply(*value.image, shift), field().power(field().add(*argument.image, shift), 3));
  }
  return value;
}

Value Algebra::add(const Value& a, const Value& b) const noexcept {
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  if (!a.is_number() || !b.is_number()) return Value::nothing();
  Value value = joined(field(), a, b, a.z + b.z, &Field::add, base::sum);
  // If the terms cancel, the sum is 0 (true) or unknown (false).
  const bool nothing = value.image.value_or(0) == 0 || !value.constant;
  if (size_of(value.z) < kSame * size_of(a.z)) value.z = nothing ? 0 : NAN;
  return value;
}

Value Algebra::negate(const Value& a) const noexcept {
  Value value = a;
  value.infinite = static_cast<std::int8_t>(-a.infinite);
  value.z = -a.z;
  if (a.image) value.image = field().multiply(*a.image, field().p - 1);
  if (a.exact) value.exact->numerator = -a.exact->numerator;
  return value;
}

Value Algebra::multiply(const Value& a, const Value& b) const noexcept {
  if (!a.is_number() || !b.is_number()) return Value::nothing();
  if (a.is_zero() || b.is_zero()) return a.is_zero() ? a : b;
  return joined(field(), a, b, a.z * b.z, &Field::multiply, base::product);
}

Value Algebra::integer_power(const Value& base, std::int64_t n) const noexcept {
  if (!base.is_number() || base.is_zero()) return base.is_number() && n > 0 ? base : Value::nothing();
  const auto times = static_cast<std::uint64_t>(std::abs(n));
  Value value{.z = 1, .constant = base.constant};
  Complex square = base.z;
  for (std::uint64_t rest = times; rest != 0; rest >>= 1, square *= square)
    if ((rest & 1) != 0) value.z *= square;
  if (n < 0) value.z = value.z.imag() == 0 ? 1 / value.z.real() : Real(1) / value.z;
  if (value.z == Complex(0)) value.z = NAN;  // underflow
  if (base.image) value.image = field().power(n < 0 ? field().inverse(*base.image) : *base.image, times);
  if (base.exact) value.exact = base::power(*base.exact, n);
  return value;
}

Value Algebra::power(const Value& base, const Value& exponent) const noexcept {
  const Value both[] = {base, exponent};
  if (!base.is_number() || !exponent.is_number()) return opaque('^', both);
  if (exponent.is_integer()) return integer_power(base, exponent.exact->numerator);
  if (base.is_zero()) return exponent.exact && exponent.exact->numerator > 0 ? base : Value::nothing();
  const bool real_root =
      exponent.exact && exponent.exact->denominator % 2 != 0 && base.z.imag() == 0 && base.z.real() < 0;
  const Complex size = exp(exponent.z * log(real_root ? -base.z : base.z));
  if (!is_finite(size) || size == Complex(0)) return opaque('^', both);
  return number(real_root && exponent.exact->numerator % 2 != 0 ? -size : size, base.constant && exponent.constant);
}

// ---- functions

Value Algebra::factorial(const Value& n) const noexcept {
  if (n.is_integer() && n.exact->numerator < 0) return Value::nothing();
  if (!n.is_integer() || n.exact->numerator > kMaxFactorial) {
    const Real z = tgammaf128(n.z.real() + 1);
    return n.is_number() && is_finite(z) ? number(z, n.constant) : opaque('!', {&n, 1});
  }
  Value value = integer(1);
  for (std::int64_t k = 2, product = 1; k <= n.exact->numerator; ++k) {
    product *= k;
    if (product >= kSome || k == n.exact->numerator) value = multiply(value, integer(std::exchange(product, 1)));
  }
  return value;
}

Value Algebra::absolute(const Value& a) const noexcept {
  if (a.z.imag() != 0) return number(hypotf128(a.z.real(), a.z.imag()), a.constant);
  return a.z.real() < 0 ? negate(a) : a;
}

Value Algebra::rounded(const Value& a, bool up) const noexcept {
  const auto real = a.real();
  if (!real || std::abs(*real) > static_cast<long double>(kSome)) return opaque(up ? 'C' : 'F', {&a, 1});
  return integer(static_cast<std::int64_t>(up ? -floorf128(-a.z.real()) : floorf128(a.z.real())));
}

std::optional<Value> Algebra::function(Law law, const Value& a) const noexcept {
  if (law == Law::abs) return absolute(a);
  if (law == Law::floor || law == Law::ceil) return rounded(a, law == Law::ceil);
  if (law == Law::cbrt) return power(a, rational({1, 3}));
  const auto* found = std::ranges::find(kFunctions, law, &Function::law);
  if (found == std::end(kFunctions)) return std::nullopt;
  if (!a.is_number()) return Value::nothing();
  const auto part = [&](Complex z) { return size_of(z) < kNothing ? integer(0) : number(z, a.constant); };
  return divide(part(found->above(a.z)), part(found->below(a.z)));
}

}  // namespace qrl::reward::math

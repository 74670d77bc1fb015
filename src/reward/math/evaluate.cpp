#include "reward/math/evaluate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <string>

namespace qrl::reward::math {

namespace {

/// Evaluates a number. If its exponent is longer than five characters, returns Algebra::opaque.
Value number_value(const Algebra& algebra, std::string_view text) {
  if (const std::size_t open = text.find('('); open != std::string_view::npos) {  // repeating digits: r / (10^m − 1)
    const std::string_view repeating = text.substr(open + 1, text.find(')') - open - 1);
    const auto places = static_cast<std::int64_t>(open - text.find('.') - 1);
    const Value nines = algebra.digits(std::string(repeating.size(), '9'));
    return algebra.add(algebra.digits(text.substr(0, open)), algebra.divide(algebra.digits(repeating, -places), nines));
  }
  const std::size_t e = std::min(text.find('e'), text.size());
  std::int64_t exponent = 0;
  if (text.size() - e > 6) return algebra.opaque(text);
  if (e < text.size()) std::from_chars(text.data() + e + 1, text.data() + text.size(), exponent);
  return algebra.digits(text.substr(0, e), exponent);
}

constexpr std::int64_t kFunctionSteps = 20;  // budget steps of a function, in addition to its node's step

}  // namespace

Value Evaluator::value(const Node& at) {
  if (!budget_.spend()) return Value::nothing();
  if (at.is(Kind::number)) return number_value(*this, at.text);
  if (at.is(Kind::symbol, Kind::words))
    return assigned_ != nullptr && at.text == variable_ ? *assigned_ : symbol(at.text);
  if (at.is(Kind::constant)) return constant(at.code);
  if (at.is(Kind::sum, Kind::mixed)) return sum(at);
  if (at.is(Kind::product)) return product(at);
  if (at.is(Kind::quantity)) return value(at[0]);
  if (at.is(Kind::power)) return raised(value(at[0]), value(at[1]));
  if (at.is(Kind::root))
    return raised(value(at[0]), divide(integer(1), at.parts.size() > 1 ? value(at[1]) : integer(2)));
  if (at.is(Kind::call)) return call(at);
  if (at.is(Kind::absolute)) return absolute(value(at[0]));
  if (at.is(Kind::floor, Kind::ceiling)) return rounded(value(at[0]), at.is(Kind::ceiling));
  if (at.is(Kind::percent)) return multiply(value(at[0]), rational({1, 100}));
  if (at.is(Kind::degree)) return multiply(value(at[0]), multiply(rational({1, 180}), constant('p')));
  if (at.is(Kind::subscript)) return subscript(at);
  if (at.is(Kind::ratio)) return ratio(at);
  if (at.is(Kind::matrix)) return matrix(at.parts.size(), at.columns, [&](std::size_t k) { return value(at[k]); });
  if (!at.is(Kind::factorial, Kind::binomial)) return as_written(at);
  const Value n = value(at[0]);
  const bool one = at.is(Kind::factorial);
  const std::int64_t factors = n.is_integer() ? std::clamp<std::int64_t>(n.exact->numerator, 0, kMaxFactorial) : 0;
  if (!budget_.spend((one ? 1 : 3) * (kFunctionSteps + factors / 5))) return Value::nothing();
  return one ? factorial(n) : binomial(n, value(at[1]));
}

/// Evaluates ratios: 3:4 is 3/4, 1:2:3 equals 2:4:6, 12:30 is a time of day.
Value Evaluator::ratio(const Node& at) {
  const auto hour = integer_of(at[0]), minute = integer_of(at[1]);
  const bool time = hour && minute && at[1].text.size() == 2 && *hour <= 24 && *minute < 60;
  if (time && (*minute < 10 || std::gcd(*hour, *minute) != 1)) return as_written(at);
  std::vector<Value> parts;
  const Value last = value(at.parts.back());
  for (const Node& part : at.parts) parts.push_back(divide(value(part), last));
  return parts.size() == 2 ? parts[0] : opaque(':', parts);
}

/// Returns an opaque value. Two nodes get equal values if their kind, brackets, signs and parts agree in order.
Value Evaluator::as_written(const Node& at) {
  std::string key{static_cast<char>(at.kind), at.open, at.close};
  std::vector<Value> parts;
  for (const Node& part : at.parts) {
    (key += ' ') += part.joint;
    parts.push_back(value(part));
  }
  return opaque(key, parts);
}

Value Evaluator::sum(const Node& at) {
  Value result = integer(0);
  for (const Node& part : at.parts) {
    const bool minus = part.joint == '-' || part.joint == (upper_ ? 'M' : 'P');
    result = minus ? subtract(result, value(part)) : add(result, value(part));
  }
  return result;
}

Value Evaluator::product(const Node& at) {
  if (std::ranges::count(at.parts, Kind::matrix, &Node::kind) > 1) return matrix_product(at);
  Value result = value(at[0]);
  for (const Node& part : at.rest()) {
    const Value factor = value(part);
    const bool integers = result.is_integer() && factor.is_integer() && factor.exact->numerator > 0;
    const __int128 m = integers ? factor.exact->numerator : 1, rest = integers ? result.exact->numerator % m : 0;
    if (part.joint == '*') result = multiply(result, factor);
    else if (part.joint == '/') result = budget_.spend() ? divide(result, factor) : Value::nothing();
    else if (part.joint == 'm' && integers) result = integer(static_cast<std::int64_t>((rest + m) % m));
    else result = opaque(part.joint, std::array{result, factor});
  }
  return result;
}

Value Evaluator::raised(const Value& base, const Value& exponent) {
  const std::uint64_t n = exponent.is_integer() ? static_cast<std::uint64_t>(std::abs(exponent.exact->numerator)) : 0;
  return budget_.spend(n != 0 ? std::bit_width(n) : kFunctionSteps) ? power(base, exponent) : Value::nothing();
}

Value Evaluator::subscript(const Node& at) {
  const auto radix = integer_of(at[1]);
  if (!at[0].is(Kind::number) || !radix) return as_written(at);
  const bool fit = *radix >= 2 && *radix <= kMaxRadix &&
                   std::ranges::all_of(at[0].text, [&](char c) { return digit_value(c) < *radix; });
  return fit ? digits(at[0].text, 0, static_cast<unsigned>(*radix)) : Value::nothing();
}

// ---- functions

Value Evaluator::call(const Node& at) {
  std::vector<Value> arguments;
  std::optional<Value> index, exponent;
  for (const Node& part : at.parts) {
    const bool brackets = part.is(Kind::tuple) && (part.open == '[') == (part.close == ']');
    if (part.joint == '_') index = value(part);
    else if (part.joint == '^') exponent = value(part);
    else
      for (const Node& entry : brackets || part.is(Kind::list, Kind::set) ? part.rest(0) : std::span(&part, 1))
        arguments.push_back(value(entry));
  }
  if (!budget_.spend(kFunctionSteps)) return Value::nothing();
  Law law = static_cast<Law>(at.code);
  if (exponent && exponent->exact == Rational{-1, 1} && law >= Law::sin && law <= Law::tan) {  // sin^{-1} x
    law = static_cast<Law>(static_cast<int>(law) + static_cast<int>(Law::arcsin) - static_cast<int>(Law::sin));
    exponent.reset();
  }
  auto result = known_call(law, arguments, index);
  if (!result) {
    if (index) arguments.push_back(*index);
    result = opaque(std::string(at.text) + (index ? '_' : ' '), arguments);
  }
  if (!exponent) return *result;
  return law == Law::big ? opaque(at.text, std::array{*result, *exponent}) : power(*result, *exponent);
}

std::optional<Value> Evaluator::known_call(Law law, std::vector<Value>& arguments, const std::optional<Value>& index) {
  if (arguments.size() == 1 && !index) return function(law, arguments[0]);
  if (arguments.size() == 1 && law == Law::ln) return divide(*function(law, arguments[0]), *function(law, *index));
  const bool divides = law == Law::divisor || law == Law::multiple, ordered = law == Law::max || law == Law::min;
  if (index || arguments.size() < 2 || (!divides && !ordered)) return std::nullopt;
  std::ranges::sort(arguments, {}, [](const Value& a) { return a.z.real(); });
  const auto is_known = [&](const Value& a) { return divides ? a.is_integer() : a.real().has_value(); };
  if (!std::ranges::all_of(arguments, is_known)) return std::nullopt;
  if (ordered) return law == Law::max ? arguments.back() : arguments.front();
  Value result = arguments[0];
  for (const Value& next : std::span(arguments).subspan(1)) {
    if (!result.is_integer()) return std::nullopt;  // beyond 64 bits
    const Value common = integer(std::gcd(result.exact->numerator, next.exact->numerator));
    result = law == Law::divisor ? common : divide(absolute(multiply(result, next)), common);
  }
  return result;
}

/// Represents a matrix by one number, so that its sums and multiples need no special case. The number is the sum of the
/// entries, each times a symbol for its position and the matrix's shape.
template <class Entry>
Value Evaluator::matrix(std::size_t size, std::size_t columns, const Entry& entry) {
  Value all = integer(0);
  const std::string shape = std::to_string(size) + '/' + std::to_string(columns) + ':';
  for (std::size_t k = 0; k < size; ++k) all = add(all, multiply(entry(k), symbol(shape + std::to_string(k))));
  return all;
}

/// Multiplies two matrices. Longer products compare as written.
Value Evaluator::matrix_product(const Node& at) {
  const Node &left = at[0], &right = at[1];
  const std::size_t inner = left.columns, columns = right.columns;
  if (at.parts.size() != 2 || right.joint != '*' || right.parts.size() != inner * columns) return as_written(at);
  return matrix(left.parts.size() / inner * columns, columns, [&](std::size_t k) {
    Value entry = integer(0);
    for (std::size_t j = 0; j < inner; ++j)
      entry = add(entry, multiply(value(left[k / columns * inner + j]), value(right[j * columns + k % columns])));
    return entry;
  });
}

}  // namespace qrl::reward::math

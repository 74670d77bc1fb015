#include "reward/math/evaluate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <string>

namespace qrl::reward::math {

namespace {

/// A number as written: see TokenType::number; an exponent has at most four digits.
Value number_value(const Algebra& algebra, std::string_view text) {
  if (const std::size_t open = text.find('('); open != std::string_view::npos) {  // repeating digits: r / (10^m − 1)
    const std::string_view repeating = text.substr(open + 1, text.find(')') - open - 1);
    const auto places = static_cast<std::int64_t>(open - text.find('.') - 1);
    const Value nines = algebra.subtract(
        algebra.rational(*base::power({10, 1}, static_cast<std::int64_t>(repeating.size()))), algebra.integer(1));
    const Value tail = algebra.divide(algebra.digits(repeating, -places), nines);
    return algebra.add(algebra.digits(text.substr(0, open), 0), tail);
  }
  const std::size_t e = text.find('e');
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    if (text.size() - e > 6) return algebra.opaque(text, {});
    std::from_chars(text.data() + e + 1, text.data() + text.size(), exponent);
  }
  return algebra.digits(text.substr(0, e), exponent);
}

constexpr std::int64_t kFunctionSteps = 20;  // beside a node

std::int64_t factorial_steps(const Value& n) noexcept {
  const std::int64_t factors = n.is_integer() ? std::clamp<std::int64_t>(n.exact->numerator, 0, kMaxFactorial) : 0;
  return kFunctionSteps + factors / 5;
}

}  // namespace

Value Evaluator::value(const Node& at) {
  if (!budget_.spend()) return Value::nothing();
  switch (at.kind) {
    case Kind::number:
      return number_value(algebra_, at.text);
    case Kind::symbol:
    case Kind::words:
      return assigned_ != nullptr && at.text == variable_ ? *assigned_ : algebra_.symbol(at.text);
    case Kind::constant:
      return algebra_.constant(at.code);
    case Kind::sum:
      return sum(at);
    case Kind::product:
      return product(at);
    case Kind::power:
      return power(at);
    case Kind::root:
      return root(at);
    case Kind::call:
      return call(at);
    case Kind::factorial: {
      const Value n = value(at[0]);
      return budget_.spend(factorial_steps(n)) ? algebra_.factorial(n) : Value::nothing();
    }
    case Kind::absolute:
      return algebra_.absolute(value(at[0]));
    case Kind::percent:
      return algebra_.multiply(value(at[0]), algebra_.rational({1, 100}));
    case Kind::degree:
      return algebra_.multiply(value(at[0]), algebra_.multiply(algebra_.rational({1, 180}), algebra_.constant('p')));
    case Kind::floor:
    case Kind::ceiling:
      return algebra_.rounded(value(at[0]), at.kind == Kind::ceiling);
    case Kind::subscript:
      return subscript(at);
    case Kind::binomial: {
      const Value n = value(at[0]), k = value(at[1]);
      return budget_.spend(3 * factorial_steps(n)) ? algebra_.binomial(n, k) : Value::nothing();
    }
    case Kind::mixed:
      return algebra_.add(value(at[0]), value(at[1]));
    case Kind::ratio:
      return ratio(at);
    case Kind::quantity:
      return value(at[0]);
    case Kind::matrix:
      return matrix(at);
    default:
      return opaque(at);
  }
}

/// 3:4 is 3/4, and 1:2:3 is 2:4:6; 12:30 is a time of day.
Value Evaluator::ratio(const Node& at) {
  const auto hour = integer_of(at[0]), minute = integer_of(at[1]);
  const std::string_view digits = at[1].text;
  const bool time = hour && minute && digits.size() == 2 && *hour <= 24 && *minute < 60;
  if (time && (digits[0] == '0' || std::gcd(*hour, *minute) != 1)) return opaque(at);
  if (at.parts.size() == 2) return algebra_.divide(value(at[0]), value(at[1]));
  std::vector<Value> parts;
  const Value last = value(at[at.parts.size() - 1]);
  for (std::size_t k = 0; k + 1 < at.parts.size(); ++k) parts.push_back(algebra_.divide(value(at[k]), last));
  return algebra_.opaque(':', parts);
}

/// What is compared as written, part by part: its parts in order, with what stands before each.
Value Evaluator::opaque(const Node& at) {
  std::string key{static_cast<char>(at.kind), at.open, at.close};
  std::vector<Value> parts;
  for (const Node& part : at.parts) {
    const char code = part.joint;
    (key += ' ') += code;
    parts.push_back(value(part));
  }
  return algebra_.opaque(key, parts);
}

Value Evaluator::sum(const Node& at) {
  Value result = algebra_.integer(0);
  for (const Node& part : at.parts) {
    const char code = part.joint;
    const Value term = value(part);
    const bool minus = code == '-' || code == (upper_ ? 'M' : 'P');
    result = algebra_.add(result, minus ? algebra_.negate(term) : term);
  }
  return result;
}

Value Evaluator::product(const Node& at) {
  if (std::ranges::count(at.parts, Kind::matrix, &Node::kind) > 1) return matrix_product(at);
  Value result = value(at[0]);
  for (const Node& part : at.rest()) {
    const char code = part.joint;
    const Value factor = value(part);
    if (code == '*') result = algebra_.multiply(result, factor);
    else if (code == '/') result = budget_.spend() ? algebra_.divide(result, factor) : Value::nothing();
    else if (code == 'm') result = algebra_.modulo(result, factor);
    else result = algebra_.opaque(code, std::array{result, factor});
  }
  return result;
}

Value Evaluator::power(const Node& at) {
  const Value base = value(at[0]), exponent = value(at[1]);
  const std::int64_t n = exponent.is_integer() ? std::abs(exponent.exact->numerator) : 0;
  const std::int64_t squarings = std::bit_width(static_cast<std::uint64_t>(n));
  return budget_.spend(n != 0 ? squarings : kFunctionSteps) ? algebra_.power(base, exponent) : Value::nothing();
}

Value Evaluator::root(const Node& at) {
  const Value degree = at.parts.size() > 1 ? value(at[1]) : algebra_.integer(2);
  if (!budget_.spend(kFunctionSteps)) return Value::nothing();
  return algebra_.power(value(at[0]), algebra_.divide(algebra_.integer(1), degree));
}

Value Evaluator::subscript(const Node& at) {
  const Node &base = at[0], index = at[1];
  if (base.is(Kind::number) && index.is(Kind::number)) {
    const auto radix = integer_of(index);
    const bool digits = is_digits(base) && radix && *radix >= 2 && *radix <= 10 &&
                        std::ranges::all_of(base.text, [&](char c) { return c - '0' < *radix; });
    return digits ? algebra_.digits(base.text, 0, static_cast<unsigned>(*radix)) : Value::nothing();
  }
  if (base.is(Kind::symbol) && index.parts.empty())
    return algebra_.symbol(std::string(base.text) + '_' + std::string(index.text));
  return opaque(at);
}

// ---- functions

Value Evaluator::call(const Node& at) {
  std::vector<Value> arguments;
  std::optional<Value> index, exponent;
  for (const Node& part : at.parts) {
    const char code = part.joint;
    const bool brackets = part.is(Kind::tuple) && (part.open == '[') == (part.close == ']');
    if (code == '_') index = value(part);
    else if (code == '^') exponent = value(part);
    else if (!brackets && !part.is(Kind::list, Kind::set)) arguments.push_back(value(part));
    else
      for (const Node& entry : part.parts) arguments.push_back(value(entry));
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
    result = algebra_.opaque(std::string(at.text) + (index ? '_' : ' '), arguments);
  }
  if (!exponent) return *result;
  return law == Law::big ? algebra_.opaque(at.text, std::array{*result, *exponent})
                         : algebra_.power(*result, *exponent);
}

/// Of a function that has a law for these arguments.
std::optional<Value> Evaluator::known_call(Law law, std::vector<Value>& arguments, const std::optional<Value>& index) {
  if (arguments.size() == 1 && !index) return algebra_.function(law, arguments[0]);
  if (arguments.size() == 1 && law == Law::ln)
    return algebra_.divide(*algebra_.function(law, arguments[0]), *algebra_.function(law, *index));
  const bool several = law == Law::divisor || law == Law::multiple || law == Law::max || law == Law::min;
  if (index || arguments.size() < 2 || !several) return std::nullopt;
  std::ranges::sort(arguments, {}, [](const Value& a) { return a.z.real(); });
  if (law == Law::max || law == Law::min) {
    const bool known = std::ranges::all_of(arguments, [](const Value& a) { return a.real().has_value(); });
    return !known ? std::nullopt : std::optional(law == Law::max ? arguments.back() : arguments.front());
  }
  Value result = arguments[0];
  for (const Value& next : std::span(arguments).subspan(1)) {
    const Value common = algebra_.common_divisor(result, next);
    result = law == Law::divisor ? common : algebra_.divide(algebra_.absolute(algebra_.multiply(result, next)), common);
  }
  return result;
}

/// The sum of its entries, each times a symbol of its place: so that 2A is what it is.
Value Evaluator::matrix(const Node& at) {
  Value all = algebra_.integer(0);
  for (std::size_t k = 0; k < at.parts.size(); ++k)
    all = algebra_.add(all, algebra_.multiply(value(at[k]), place(at.parts.size(), at.columns, k)));
  return all;
}

/// Of two matrices; of more than that nothing is known.
Value Evaluator::matrix_product(const Node& at) {
  const Node &left = at[0], &right = at[1];
  const std::size_t inner = left.columns, columns = right.columns;
  if (at.parts.size() != 2 || right.joint != '*' || right.parts.size() != inner * columns) return opaque(at);
  const std::size_t size = left.parts.size() / inner * columns;
  Value all = algebra_.integer(0);
  for (std::size_t k = 0; k < size; ++k) {
    Value entry = algebra_.integer(0);
    for (std::size_t j = 0; j < inner; ++j) {
      const Value factor = value(left[k / columns * inner + j]);
      entry = algebra_.add(entry, algebra_.multiply(factor, value(right[j * columns + k % columns])));
    }
    all = algebra_.add(all, algebra_.multiply(entry, place(size, columns, k)));
  }
  return all;
}

Value Evaluator::place(std::size_t size, std::size_t columns, std::size_t k) const {
  return algebra_.symbol(std::to_string(size) + '/' + std::to_string(columns) + ':' + std::to_string(k));
}

}  // namespace qrl::reward::math

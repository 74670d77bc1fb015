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

constexpr std::int64_t kFunctionSteps = 20, kBinomialSteps = 60;  // what they cost beside a node

/// √((x − 2)²), which is |x − 2|: a difference of positive variables has any sign.
bool is_root_of_square(const Tree& tree, const Node& root) noexcept {
  const Node& power = tree.child_at(root, 0);
  if (root.count != 1 || power.kind != Kind::power || integer_of(tree.child_at(power, 1)) != 2) return false;
  const Node& base = tree.child_at(power, 0);
  return base.kind == Kind::sum && has_symbols(tree, tree.child(power, 0)) &&
         std::ranges::any_of(tree.of(base), [](Link link) { return link.code == '-'; });
}

}  // namespace

Value Evaluator::value(NodeIdx idx) {
  if (!budget_.spend()) return Value::nothing();
  const Node& node = tree_.at(idx);
  switch (node.kind) {
    case Kind::number:
      return number_value(algebra_, node.text);
    case Kind::symbol:
    case Kind::words:
      return assigned_ != nullptr && node.text == variable_ ? *assigned_ : algebra_.symbol(node.text);
    case Kind::constant:
      return algebra_.constant(node.code);
    case Kind::sum:
      return sum(node);
    case Kind::product:
      return product(node);
    case Kind::power:
      return power(node);
    case Kind::root:
      return root(node);
    case Kind::call:
      return call(node);
    case Kind::factorial:
      return factorial(node);
    case Kind::absolute:
      return absolute(tree_.child(node, 0));
    case Kind::percent:
      return algebra_.multiply(child(node, 0), algebra_.rational({1, 100}));
    case Kind::degree:
      return algebra_.multiply(child(node, 0), algebra_.multiply(algebra_.rational({1, 180}), algebra_.constant('p')));
    case Kind::floor:
    case Kind::ceiling:
      return algebra_.rounded(child(node, 0), node.kind == Kind::ceiling);
    case Kind::subscript:
      return subscript(node);
    case Kind::binomial:
      return budget_.spend(kBinomialSteps) ? algebra_.binomial(child(node, 0), child(node, 1)) : Value::nothing();
    case Kind::mixed:
      return algebra_.add(child(node, 0), child(node, 1));
    case Kind::ratio:
      return ratio(node);
    case Kind::quantity:
      return child(node, 0);
    default:
      return opaque(node);
  }
}

/// 3:4 is 3/4, and 1:2:3 is 2:4:6; 12:30 is a time of day.
Value Evaluator::ratio(const Node& node) {
  const auto hour = integer_of(tree_.child_at(node, 0)), minute = integer_of(tree_.child_at(node, 1));
  const std::string_view digits = tree_.child_at(node, 1).text;
  const bool time = hour && minute && digits.size() == 2 && *hour <= 24 && *minute < 60;
  if (time && (digits[0] == '0' || std::gcd(*hour, *minute) != 1)) return opaque(node);
  if (node.count == 2) return algebra_.divide(child(node, 0), child(node, 1));
  std::vector<Value> parts;
  const Value last = child(node, node.count - 1);
  for (std::int32_t k = 0; k + 1 < node.count; ++k) parts.push_back(algebra_.divide(child(node, k), last));
  return algebra_.opaque(':', parts);
}

/// What is compared as written, part by part: its parts in order, with what stands before each.
Value Evaluator::opaque(const Node& node) {
  std::string key{static_cast<char>(node.kind), node.open, node.close};
  if (node.kind == Kind::matrix) key += node.text;
  std::vector<Value> parts;
  for (const auto& [part, code] : tree_.of(node)) {
    (key += ' ') += code;
    parts.push_back(value(part));
  }
  return algebra_.opaque(key, parts);
}

Value Evaluator::sum(const Node& node) {
  Value result = algebra_.integer(0);
  for (const auto& [part, code] : tree_.of(node)) {
    const Value term = value(part);
    const bool minus = code == '-' || code == (upper_ ? 'M' : 'P');
    result = algebra_.add(result, minus ? algebra_.negate(term) : term);
  }
  return result;
}

Value Evaluator::product(const Node& node) {
  Value result = value(tree_.child(node, 0));
  for (const auto& [part, code] : tree_.of(node).subspan(1)) {
    const Value factor = value(part);
    if (code == '*') result = algebra_.multiply(result, factor);
    else if (code == '/') result = algebra_.divide(result, factor);
    else if (code == 'm') result = algebra_.modulo(result, factor);
    else result = algebra_.opaque(code, std::array{result, factor});
  }
  return result;
}

Value Evaluator::absolute(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (!is_product_of_factors(tree_, node) || !has_symbols(tree_, idx)) return algebra_.absolute(value(idx));
  Value result = algebra_.integer(1);
  for (const auto& [part, code] : tree_.of(node)) {
    const Value factor = absolute(part);
    result = code == '/' ? algebra_.divide(result, factor) : algebra_.multiply(result, factor);
  }
  return result;
}

Value Evaluator::factorial(const Node& node) {
  const Value n = child(node, 0);
  const std::int64_t factors = n.is_integer() ? std::clamp<std::int64_t>(n.exact->numerator, 0, kMaxFactorial) : 0;
  return budget_.spend(kFunctionSteps + factors / 5) ? algebra_.factorial(n) : Value::nothing();
}

Value Evaluator::power(const Node& node) {
  const Value base = child(node, 0), exponent = child(node, 1);
  const std::int64_t n = exponent.is_integer() ? std::abs(exponent.exact->numerator) : 0;
  const std::int64_t squarings = std::bit_width(static_cast<std::uint64_t>(n));
  return budget_.spend(n != 0 ? squarings : kFunctionSteps) ? algebra_.power(base, exponent) : Value::nothing();
}

Value Evaluator::root(const Node& node) {
  if (is_root_of_square(tree_, node)) return absolute(tree_.child(tree_.child_at(node, 0), 0));
  const Value degree = node.count > 1 ? child(node, 1) : algebra_.integer(2);
  if (!budget_.spend(kFunctionSteps)) return Value::nothing();
  return algebra_.power(child(node, 0), algebra_.divide(algebra_.integer(1), degree));
}

Value Evaluator::subscript(const Node& node) {
  const Node &base = tree_.child_at(node, 0), &index = tree_.child_at(node, 1);
  if (base.kind == Kind::number && index.kind == Kind::number) {
    const auto radix = integer_of(index);
    const bool digits = is_digits(base) && radix && *radix >= 2 && *radix <= 10 &&
                        std::ranges::all_of(base.text, [&](char c) { return c - '0' < *radix; });
    return digits ? algebra_.digits(base.text, 0, static_cast<unsigned>(*radix)) : Value::nothing();
  }
  if (base.kind == Kind::symbol && index.count == 0)
    return algebra_.symbol(std::string(base.text) + '_' + std::string(index.text));
  return opaque(node);
}

// ---- functions

Value Evaluator::call(const Node& node) {
  std::vector<Value> arguments;
  std::optional<Value> index, exponent;
  for (const auto& [part, code] : tree_.of(node)) {
    const Node& argument = tree_.at(part);
    const bool brackets = argument.kind == Kind::tuple && (argument.open == '[') == (argument.close == ']');
    if (code == '_') index = value(part);
    else if (code == '^') exponent = value(part);
    else if (!brackets && argument.kind != Kind::list && argument.kind != Kind::set) arguments.push_back(value(part));
    else
      for (const Link link : tree_.of(argument)) arguments.push_back(value(link.node));
  }
  if (!budget_.spend(kFunctionSteps)) return Value::nothing();
  Law law = static_cast<Law>(node.code);
  if (exponent && exponent->exact == Rational{-1, 1} && law >= Law::sin && law <= Law::tan) {  // sin^{-1} x
    law = static_cast<Law>(static_cast<int>(law) + static_cast<int>(Law::arcsin) - static_cast<int>(Law::sin));
    exponent.reset();
  }
  auto result = known_call(law, arguments, index);
  if (!result) {
    if (index) arguments.push_back(*index);
    result = algebra_.opaque(std::string(node.text) + (index ? '_' : ' '), arguments);
  }
  if (!exponent) return *result;
  return law == Law::big ? algebra_.opaque(node.text, std::array{*result, *exponent})
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

std::optional<MatrixValue> Evaluator::matrix(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  std::optional<MatrixValue> result;
  if (node.kind == Kind::matrix) {
    const auto columns = static_cast<std::size_t>(node.columns);
    result = {static_cast<std::size_t>(node.count) / columns, columns, {}};
    for (const Link link : tree_.of(node)) result->entries.push_back(value(link.node));
    return result;
  }
  Value scale = algebra_.integer(1);
  if (!is_product_of_factors(tree_, node)) return std::nullopt;
  for (const auto& [part, code] : tree_.of(node)) {
    const auto next = code == '/' ? std::nullopt : matrix(part);
    if (!next) {
      scale = code == '/' ? algebra_.divide(scale, value(part)) : algebra_.multiply(scale, value(part));
    } else if (!result) {
      result = next;
    } else {
      const std::size_t inner = next->rows, columns = next->columns;
      if (result->columns != inner || !budget_.spend(static_cast<std::int64_t>(result->rows * columns * inner)))
        return std::nullopt;
      MatrixValue all{result->rows, columns, std::vector<Value>(result->rows * columns, algebra_.integer(0))};
      for (std::size_t k = 0; k < all.entries.size() * inner; ++k) {
        Value& entry = all.entries[k / inner];
        const std::size_t row = k / inner / columns, column = k / inner % columns, j = k % inner;
        entry = algebra_.add(entry,
                             algebra_.multiply(result->entries[row * inner + j], next->entries[j * columns + column]));
      }
      result = std::move(all);
    }
  }
  for (std::size_t k = 0; result && k < result->entries.size(); ++k)
    result->entries[k] = algebra_.multiply(scale, result->entries[k]);
  return result;
}

}  // namespace qrl::reward::math

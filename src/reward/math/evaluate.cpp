#include "reward/math/evaluate.h"

#include <algorithm>
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

/// What a root, a power with another exponent than a whole number, or a function costs beside a node: factors, three
/// fields and their numbers.
constexpr std::int64_t kRootSteps = 20;
constexpr std::int64_t kDivisionSteps = 3;

/// A whole exponent is squarings in two fields and their numbers, a step's worth in 16 of them.
std::int64_t power_steps(const Value& exponent) noexcept {
  if (!exponent.is_integer()) return kRootSteps;
  const std::int64_t n = exponent.exact->q.numerator;
  return std::bit_width(static_cast<std::uint64_t>(n < 0 ? -n : n)) / 16;
}

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
  if (!budget_.spend()) return algebra_.undefined();
  const Node& node = tree_.at(idx);
  switch (node.kind) {
    case Kind::number:
      return number_value(algebra_, node.text);
    case Kind::symbol:
      return assigned_ != nullptr && node.text == variable_ ? *assigned_ : algebra_.symbol(node.text);
    case Kind::constant:
      return node.code == 'p'   ? algebra_.pi()
             : node.code == 'e' ? algebra_.e()
             : node.code == 'i' ? algebra_.i()
             : node.code == 'o' ? algebra_.infinity(1)
                                : algebra_.opaque(node.text, {});
    case Kind::words:
      return algebra_.opaque(node.text, {});
    case Kind::sum:
      return sum(node);
    case Kind::product:
      return product(node);
    case Kind::power: {
      const Value base = child(node, 0), exponent = child(node, 1);
      return budget_.spend(power_steps(exponent)) ? algebra_.power(base, exponent) : algebra_.undefined();
    }
    case Kind::root:
      if (is_root_of_square(tree_, node)) return absolute(tree_.child(tree_.child_at(node, 0), 0));
      if (!budget_.spend(kRootSteps)) return algebra_.undefined();
      return algebra_.root(child(node, 0), degree_of(node));
    case Kind::call:
      return call(node);
    case Kind::factorial:
      return budget_.spend(20) ? factorial(tree_.child(node, 0)) : algebra_.undefined();
    case Kind::absolute:
      return absolute(tree_.child(node, 0));
    case Kind::percent:
      return algebra_.multiply(child(node, 0), algebra_.rational({1, 100}));
    case Kind::degree:
      return algebra_.multiply(child(node, 0), algebra_.multiply(algebra_.rational({1, 180}), algebra_.pi()));
    case Kind::floor:
    case Kind::ceiling:
      return algebra_.rounded(child(node, 0), node.kind == Kind::ceiling);
    case Kind::subscript:
      return subscript(node);
    case Kind::binomial:
      return budget_.spend(60) ? algebra_.binomial(child(node, 0), child(node, 1)) : algebra_.undefined();
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
  return algebra_.opaque(":", parts);
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
    else if (code == '/')
      result = budget_.spend(kDivisionSteps) ? algebra_.divide(result, factor) : algebra_.undefined();
    else if (code == 'm') result = algebra_.modulo(result, factor);
    else result = algebra_.opaque({&code, 1}, {result, factor});
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

Value Evaluator::factorial(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  std::int64_t shift = 0;  // of n in (n + 2)!
  if (node.kind == Kind::sum && has_symbols(tree_, idx)) {
    for (const auto& [part, code] : tree_.of(node)) {
      const auto digit = integer_of(tree_.at(part));
      if (digit && *digit < 10) shift += code == '-' ? -*digit : *digit;
    }
  }
  const Value whole = value(idx);
  if (whole.is_integer() && !budget_.spend(std::clamp<std::int64_t>(whole.exact->q.numerator, 0, kMaxFactorial) / 20))
    return algebra_.undefined();  // a factor is two products in two fields and one of numbers
  Value result = algebra_.factorial(algebra_.subtract(whole, algebra_.integer(shift)));
  for (std::int64_t j = 0; j < shift; ++j)
    result = algebra_.multiply(result, algebra_.subtract(whole, algebra_.integer(j)));
  for (std::int64_t j = 1; j <= -shift; ++j) result = algebra_.divide(result, algebra_.add(whole, algebra_.integer(j)));
  return result;
}

Value Evaluator::subscript(const Node& node) {
  const Node &base = tree_.child_at(node, 0), &index = tree_.child_at(node, 1);
  if (base.kind == Kind::number && index.kind == Kind::number) {
    const auto radix = integer_of(index);
    const bool digits = is_digits(base) && radix && *radix >= 2 && *radix <= 10 &&
                        std::ranges::all_of(base.text, [&](char c) { return c - '0' < *radix; });
    return digits ? algebra_.digits(base.text, 0, static_cast<unsigned>(*radix)) : algebra_.undefined();
  }
  if (base.kind == Kind::symbol && index.count == 0)
    return algebra_.symbol(std::string(base.text) + '_' + std::string(index.text));
  return opaque(node);
}

}  // namespace qrl::reward::math

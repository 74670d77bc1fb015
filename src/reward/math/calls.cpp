// Functions and matrices of Evaluator.
#include <algorithm>
#include <string>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

namespace {

constexpr std::int64_t kFunctionSteps = 20;  // beside a node

using Trig = Algebra::Trig;

Value over(Algebra& f, const Value& below) { return f.divide(f.integer(1), below); }

/// A function of one argument that has a law; all others are what Algebra::opaque makes of them.
struct Function {
  Law law;
  Value (*value)(Algebra&, const Value&);
};
constexpr Function kFunctions[] = {
    {Law::sin, [](Algebra& f, const Value& a) { return f.trigonometric(Trig::sin, a); }},
    {Law::cos, [](Algebra& f, const Value& a) { return f.trigonometric(Trig::cos, a); }},
    {Law::tan, [](Algebra& f, const Value& a) { return f.trigonometric(Trig::tan, a); }},
    {Law::cot,
     [](Algebra& f, const Value& a) { return f.divide(f.trigonometric(Trig::cos, a), f.trigonometric(Trig::sin, a)); }},
    {Law::sec, [](Algebra& f, const Value& a) { return over(f, f.trigonometric(Trig::cos, a)); }},
    {Law::csc, [](Algebra& f, const Value& a) { return over(f, f.trigonometric(Trig::sin, a)); }},
    {Law::arcsin, [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::sin, a); }},
    {Law::arccos, [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::cos, a); }},
    {Law::arctan, [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::tan, a); }},
    {Law::sinh, [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::sin, a); }},
    {Law::cosh, [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::cos, a); }},
    {Law::tanh, [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::tan, a); }},
    {Law::exp, [](Algebra& f, const Value& a) { return f.power(f.e(), a); }},
    {Law::cbrt,
     [](Algebra& f, const Value& a) {
       return f.power(a, f.rational({1, 3}));
     }},
    {Law::abs, [](Algebra& f, const Value& a) { return f.absolute(a); }},
    {Law::floor, [](Algebra& f, const Value& a) { return f.rounded(a, false); }},
    {Law::ceil, [](Algebra& f, const Value& a) { return f.rounded(a, true); }},
};

bool among(Law law, std::initializer_list<Law> laws) noexcept { return std::ranges::find(laws, law) != laws.end(); }

Law law_of(const Node& node) noexcept { return static_cast<Law>(node.code); }

}  // namespace

/// ln of products, quotients and powers as sums: for the positive values that variables stand for here.
Value Evaluator::logarithm_of(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (!budget_.spend()) return algebra_.undefined();
  if (is_product_of_factors(tree_, node) && has_symbols(tree_, idx)) {
    Value result = algebra_.integer(0);
    for (const Link link : tree_.of(node)) {
      const Value term = logarithm_of(link.node);
      result = link.code == '/' ? algebra_.subtract(result, term) : algebra_.add(result, term);
    }
    return result;
  }
  if (node.kind == Kind::power)
    return algebra_.multiply(value(tree_.child(node, 1)), logarithm_of(tree_.child(node, 0)));
  if (node.kind == Kind::root) return algebra_.divide(logarithm_of(tree_.child(node, 0)), degree_of(node));
  return algebra_.logarithm(value(idx));
}

Value Evaluator::call(const Node& node) {
  std::vector<Value> arguments;
  NodeIdx index = -1, exponent = -1, only = -1;
  for (const auto& [part, code] : tree_.of(node)) {
    const Node& argument = tree_.at(part);
    if (code == '_' || code == '^') {
      (code == '_' ? index : exponent) = part;
      continue;
    }
    only = arguments.empty() ? part : -1;
    const bool brackets = argument.kind == Kind::tuple && (argument.open == '[') == (argument.close == ']');
    if (!brackets && argument.kind != Kind::list && argument.kind != Kind::set) {
      arguments.push_back(value(part));
      continue;
    }
    only = -1;
    for (const Link link : tree_.of(argument)) arguments.push_back(value(link.node));
  }
  if (!budget_.spend(kFunctionSteps)) return algebra_.undefined();
  const Law law = law_of(node);
  Value result;
  if (only >= 0 && (law == Law::ln || law == Law::lg)) {
    result = logarithm_of(only);
    if (law == Law::lg) result = algebra_.divide(result, algebra_.logarithm(algebra_.integer(10)));
    if (index >= 0) result = algebra_.divide(result, logarithm_of(index));
  } else {
    if (index >= 0) arguments.push_back(value(index));
    result = named_call(node, arguments, index >= 0);
  }
  if (exponent < 0) return result;
  const Value power = value(exponent);
  if (law == Law::big) return algebra_.opaque(node.text, {result, power});
  const bool inverse = power.is_integer() && power.exact->q.numerator == -1;
  if (!inverse || !among(law, {Law::sin, Law::cos, Law::tan})) return algebra_.power(result, power);
  const Trig which = law == Law::sin ? Trig::sin : law == Law::cos ? Trig::cos : Trig::tan;
  return algebra_.inverse_trigonometric(which, arguments[0]);
}

Value Evaluator::named_call(const Node& node, std::vector<Value>& arguments, bool indexed) {
  const Law law = law_of(node);
  if (arguments.size() == 1 && !indexed) {
    const auto* function = std::ranges::find(kFunctions, law, &Function::law);
    if (function != std::end(kFunctions)) return function->value(algebra_, arguments[0]);
  }
  if (indexed || arguments.size() < 2 || !among(law, {Law::divisor, Law::multiple, Law::max, Law::min}))
    return algebra_.opaque(std::string(node.text) + (indexed ? '_' : ' '), arguments);
  // In any order the same.
  std::ranges::sort(arguments, {}, [](const Value& a) { return a.f[0].re; });
  if (law == Law::max || law == Law::min) {
    const auto size = [](const Value& a) { return *a.real(); };
    if (!std::ranges::all_of(arguments, [](const Value& a) { return a.real().has_value(); }))
      return algebra_.opaque(node.text, arguments);
    return law == Law::max ? std::ranges::max(arguments, {}, size) : std::ranges::min(arguments, {}, size);
  }
  Value result = arguments[0];
  for (std::size_t k = 1; k < arguments.size(); ++k) {
    const Value common = algebra_.common_divisor(result, arguments[k]);
    result = law == Law::divisor ? common
                                 : algebra_.divide(algebra_.absolute(algebra_.multiply(result, arguments[k])), common);
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

// Functions and logarithms of Evaluator.
#include <algorithm>
#include <string>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

namespace {

constexpr std::int64_t kFunctionSteps = 20;  // beside a node

}  // namespace

bool Evaluator::is_logarithm_to(const Node& base, const Node& node) const noexcept {
  if (node.kind != Kind::call || node.count == 0 || (node.text != "ln" && node.text != "log")) return false;
  const Node& argument = tree_.child_at(node, 0);
  if (argument.kind == Kind::list || argument.kind == Kind::tuple || argument.kind == Kind::set) return false;
  if (node.count == 1) return base.kind == Kind::constant && base.text == "e";
  const Node& index = tree_.child_at(node, 1);
  return node.count == 2 && tree_.link(node, 1).code == '_' && index.kind == base.kind && index.text == base.text &&
         (base.kind == Kind::number || base.kind == Kind::symbol);
}

bool Evaluator::undoes_logarithm(const Node& base, NodeIdx exponent) const noexcept {
  const Node& node = tree_.at(exponent);
  if (is_logarithm_to(base, node)) return true;
  bool found = false;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    if (node.kind == Kind::sum) {
      if (link.code == 'P' || link.code == 'M') return false;
      found = found || undoes_logarithm(base, link.node);
    } else if (node.kind == Kind::product) {
      if (k > 0 && link.code != '*' && link.code != '/') return false;
      found = found || (link.code != '/' && is_logarithm_to(base, tree_.at(link.node)));
    }
  }
  return found;
}

Value Evaluator::antilogarithm(NodeIdx base, NodeIdx exponent) {
  if (!budget_.spend(kFunctionSteps)) return algebra_.undefined();
  const Node& node = tree_.at(exponent);
  const auto argument_of = [this](const Node& logarithm) {
    const Value argument = value(tree_.child(logarithm, 0));
    return argument.is_zero() ? algebra_.undefined() : argument;
  };
  if (is_logarithm_to(tree_.at(base), node)) return argument_of(node);
  if (!undoes_logarithm(tree_.at(base), exponent)) return algebra_.power(value(base), value(exponent));
  if (node.kind == Kind::sum) {
    Value result = algebra_.integer(1);
    for (std::int32_t k = 0; k < node.count; ++k) {
      const Link link = tree_.link(node, k);
      const Value factor = antilogarithm(base, link.node);
      result = link.code == '-' ? algebra_.divide(result, factor) : algebra_.multiply(result, factor);
    }
    return result;
  }
  Value argument, rest = algebra_.integer(1);
  bool found = false;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    if (!found && link.code != '/' && is_logarithm_to(tree_.at(base), tree_.at(link.node))) {
      argument = argument_of(tree_.at(link.node));
      found = true;
      continue;
    }
    const Value factor = value(link.node);
    rest = link.code == '/' ? algebra_.divide(rest, factor) : algebra_.multiply(rest, factor);
  }
  return algebra_.power(argument, rest);
}

/// ln of products, quotients and powers as sums: for the positive values that variables stand for here.
Value Evaluator::logarithm_of(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (!budget_.spend()) return algebra_.undefined();
  if (node.kind == Kind::product && has_symbols(tree_, idx)) {
    Value result = logarithm_of(tree_.child(node, 0));
    for (std::int32_t k = 1; k < node.count; ++k) {
      const Link link = tree_.link(node, k);
      if (link.code != '*' && link.code != '/') return algebra_.logarithm(value(idx));
      const Value term = logarithm_of(link.node);
      result = link.code == '*' ? algebra_.add(result, term) : algebra_.subtract(result, term);
    }
    return result;
  }
  if (node.kind == Kind::power) {
    return algebra_.multiply(value(tree_.child(node, 1)), logarithm_of(tree_.child(node, 0)));
  }
  if (node.kind == Kind::root) {
    const Value degree = node.count > 1 ? value(tree_.child(node, 1)) : algebra_.integer(2);
    return algebra_.divide(logarithm_of(tree_.child(node, 0)), degree);
  }
  return algebra_.logarithm(value(idx));
}

Value Evaluator::call(const Node& node) {
  std::vector<Value> arguments;
  const Value* index = nullptr;
  Value index_value, exponent_value;
  NodeIdx index_idx = -1;
  bool has_exponent = false;
  const bool unnamed = node.text.empty();
  std::int32_t num_arguments = 0;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    if (link.code == '_') {
      index_value = value(link.node);
      index = &index_value;
      index_idx = link.node;
    } else if (link.code == '^') {
      exponent_value = value(link.node);
      has_exponent = true;
    } else {
      ++num_arguments;
      const Node& argument = tree_.at(link.node);
      const bool brackets = argument.kind == Kind::tuple && (argument.open == '[') == (argument.close == ']');
      if (brackets || argument.kind == Kind::list || argument.kind == Kind::set) {
        for (std::int32_t j = 0; j < argument.count; ++j) arguments.push_back(value(tree_.child(argument, j)));
      } else {
        arguments.push_back(value(link.node));
      }
    }
  }
  if (unnamed) return algebra_.opaque("call", arguments);
  if (!budget_.spend(kFunctionSteps)) return algebra_.undefined();
  const bool log = node.text == "ln" || node.text == "log" || node.text == "lg" || node.text == "Log";
  Value result;
  if (log && num_arguments == 1 && arguments.size() == 1) {
    result = logarithm_of(tree_.child(node, 0));
    if (node.text == "lg") result = algebra_.divide(result, algebra_.logarithm(algebra_.integer(10)));
    if (index != nullptr) result = algebra_.divide(result, logarithm_of(index_idx));
  } else {
    result = named_call(node, arguments, index);
  }
  if (!has_exponent) return result;
  const bool inverse = exponent_value.is_integer() && exponent_value.exact->q.numerator == -1;
  const auto inverted = [&](Algebra::Trig which) { return algebra_.inverse_trigonometric(which, arguments[0]); };
  if (inverse && node.text == "sin") return inverted(Algebra::Trig::sin);
  if (inverse && node.text == "cos") return inverted(Algebra::Trig::cos);
  if (inverse && node.text == "tan") return inverted(Algebra::Trig::tan);
  const bool big = node.text == "sum" || node.text == "prod" || node.text.ends_with("int");
  if (big) return algebra_.opaque("upper", {result, exponent_value});
  return algebra_.power(result, exponent_value);
}

namespace {

using Trig = Algebra::Trig;

/// A function of one argument that has a law; all others are what Algebra::opaque makes of them.
struct Function {
  std::string_view names;  ///< each between spaces
  Value (*value)(Algebra&, const Value&);
};
constexpr Function kFunctions[] = {
    {" sin ", [](Algebra& f, const Value& a) { return f.trigonometric(Trig::sin, a); }},
    {" cos ", [](Algebra& f, const Value& a) { return f.trigonometric(Trig::cos, a); }},
    {" tan ", [](Algebra& f, const Value& a) { return f.trigonometric(Trig::tan, a); }},
    {" cot ",
     [](Algebra& f, const Value& a) { return f.divide(f.trigonometric(Trig::cos, a), f.trigonometric(Trig::sin, a)); }},
    {" sec ", [](Algebra& f, const Value& a) { return f.divide(f.integer(1), f.trigonometric(Trig::cos, a)); }},
    {" csc ", [](Algebra& f, const Value& a) { return f.divide(f.integer(1), f.trigonometric(Trig::sin, a)); }},
    {" arcsin asin ", [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::sin, a); }},
    {" arccos acos ", [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::cos, a); }},
    {" arctan atan ", [](Algebra& f, const Value& a) { return f.inverse_trigonometric(Trig::tan, a); }},
    {" sinh ", [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::sin, a); }},
    {" cosh ", [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::cos, a); }},
    {" tanh ", [](Algebra& f, const Value& a) { return f.hyperbolic(Trig::tan, a); }},
    {" coth ", [](Algebra& f, const Value& a) { return f.divide(f.integer(1), f.hyperbolic(Trig::tan, a)); }},
    {" sech ", [](Algebra& f, const Value& a) { return f.divide(f.integer(1), f.hyperbolic(Trig::cos, a)); }},
    {" csch ", [](Algebra& f, const Value& a) { return f.divide(f.integer(1), f.hyperbolic(Trig::sin, a)); }},
    {" exp ", [](Algebra& f, const Value& a) { return f.power(f.e(), a); }},
    {" cis ",
     [](Algebra& f, const Value& a) {
       return f.add(f.trigonometric(Trig::cos, a), f.multiply(f.i(), f.trigonometric(Trig::sin, a)));
     }},
    {" cbrt ", [](Algebra& f, const Value& a) { return f.root(a, f.integer(3)); }},
    {" abs ", [](Algebra& f, const Value& a) { return f.absolute(a); }},
    {" floor ", [](Algebra& f, const Value& a) { return f.rounded(a, false); }},
    {" ceil ", [](Algebra& f, const Value& a) { return f.rounded(a, true); }},
};

bool among(std::string_view names, std::string_view name) {
  return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}

}  // namespace

Value Evaluator::named_call(const Node& node, const std::vector<Value>& arguments, const Value* index) {
  const std::string_view name = node.text;
  if (arguments.size() == 1 && index == nullptr) {
    const auto* function = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                        [name](const Function& f) { return among(f.names, name); });
    if (function != std::end(kFunctions)) return function->value(algebra_, arguments[0]);
    if (name == "det" && tree_.child_at(node, 0).kind == Kind::matrix) return determinant(node);
  }
  const bool greatest = among(" gcd gcf hcf ", name), least = among(" lcm lcd ", name),
             extreme = among(" max min ", name);
  if ((greatest || least || extreme) && arguments.size() > 1 && index == nullptr) {
    std::vector<Value> sorted = arguments;  // in any order the same
    std::sort(sorted.begin(), sorted.end(), [](const Value& a, const Value& b) { return a.f[0].re < b.f[0].re; });
    if (extreme) return extreme_of(name, sorted);
    Value result = sorted[0];
    for (std::size_t k = 1; k < sorted.size(); ++k) {
      const Value common = algebra_.common_divisor(result, sorted[k]);
      result = greatest ? common : algebra_.divide(algebra_.absolute(algebra_.multiply(result, sorted[k])), common);
    }
    return result;
  }
  std::vector<Value> parts = arguments;
  if (index != nullptr) parts.push_back(*index);
  return algebra_.opaque(index != nullptr ? std::string(name) + "_" : std::string(name), parts);
}

Value Evaluator::extreme_of(std::string_view name, const std::vector<Value>& arguments) {
  const Value* best = &arguments[0];
  bool known = true;
  for (const Value& a : arguments) {
    known = known && a.real();
    if (known && (name == "max" ? *a.real() > *best->real() : *a.real() < *best->real())) best = &a;
  }
  return known ? *best : algebra_.opaque(name, arguments);
}

}  // namespace qrl::reward::math

#include "reward/math/evaluate.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include "reward/math/forms.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxDeterminant = 4;

/// A number as written: see TokenType::number; an exponent has at most four digits.
Value number_value(const Algebra& algebra, std::string_view text) {
  if (const std::size_t open = text.find('('); open != std::string_view::npos) {  // repeating digits: r / (10^m − 1)
    const std::string_view repeating = text.substr(open + 1, text.find(')') - open - 1);
    const auto places = static_cast<std::int64_t>(open - text.find('.') - 1);
    const Value nines =
        algebra.subtract(algebra.decimal("1", static_cast<std::int64_t>(repeating.size())), algebra.integer(1));
    const Value tail = algebra.divide(algebra.decimal(repeating, -places), nines);
    return algebra.add(algebra.decimal(text.substr(0, open), 0), tail);
  }
  const std::size_t e = text.find('e');
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    if (text.size() - e > 6) return algebra.opaque("number", {}, nullptr);
    std::from_chars(text.data() + e + 1, text.data() + text.size(), exponent);
  }
  return algebra.decimal(text.substr(0, e), exponent);
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

}  // namespace

Value Evaluator::value(NodeIdx idx) {
  if (!budget_.spend()) return algebra_.undefined();
  const Node& node = tree_.at(idx);
  const auto child = [&](std::int32_t k) { return value(tree_.child(node, k)); };
  switch (node.kind) {
    case Kind::number:
      return number_value(algebra_, node.text);
    case Kind::symbol:
      return assigned_ != nullptr && node.text == variable_ ? *assigned_ : algebra_.symbol(node.text);
    case Kind::constant:
      if (node.text == "pi") return algebra_.pi();
      if (node.text == "e") return algebra_.e();
      if (node.text == "i") return algebra_.i();
      return node.text == "infinity" ? algebra_.infinity(1) : algebra_.opaque(node.text, {});
    case Kind::words:
      return algebra_.opaque(node.text, {});
    case Kind::sum:
      return sum(node);
    case Kind::product:
      return product(node);
    case Kind::power: {
      if (undoes_logarithm(tree_.at(tree_.child(node, 0)), tree_.child(node, 1)))
        return antilogarithm(tree_.child(node, 0), tree_.child(node, 1));
      const Value base = child(0), exponent = child(1);
      return budget_.spend(power_steps(exponent)) ? algebra_.power(base, exponent) : algebra_.undefined();
    }
    case Kind::root:
      if (is_root_of_square(node)) return absolute(tree_.child(tree_.child_at(node, 0), 0));
      if (!budget_.spend(kRootSteps)) return algebra_.undefined();
      return algebra_.root(child(0), node.count > 1 ? child(1) : algebra_.integer(2));
    case Kind::call:
      return call(node);
    case Kind::factorial:
      return budget_.spend(20) ? factorial(tree_.child(node, 0)) : algebra_.undefined();
    case Kind::absolute:
      return absolute(tree_.child(node, 0));
    case Kind::percent:
      return algebra_.multiply(child(0), algebra_.rational({1, 100}));
    case Kind::degree:
      return algebra_.multiply(child(0), algebra_.multiply(algebra_.rational({1, 180}), algebra_.pi()));
    case Kind::floor:
    case Kind::ceiling:
      return algebra_.rounded(child(0), node.kind == Kind::ceiling);
    case Kind::subscript:
      return subscript(node);
    case Kind::binomial:
      return budget_.spend(60) ? algebra_.binomial(child(0), child(1)) : algebra_.undefined();
    case Kind::mixed:
      return algebra_.add(child(0), child(1));
    case Kind::ratio: {  // 3:4 is 3/4; 12:00 and (0:0:1) are not
      const Node& second = tree_.child_at(node, 1);
      const bool time = second.kind == Kind::number && second.text.size() == 2 && second.text[0] == '0';
      if (node.count > 2 || time) return opaque("ratio", node);
      return algebra_.divide(child(0), child(1));
    }
    case Kind::quantity:
      return child(0);
    case Kind::determinant:
      return determinant(node);
    case Kind::prime:
      return opaque("prime", node);
    case Kind::list:
      return opaque("list", node);
    case Kind::tuple:
      return opaque(std::string("tuple") + node.open + node.close, node);
    case Kind::set:
      return opaque("set", node);
    case Kind::set_builder:
      return opaque("builder", node);
    case Kind::set_operation:
      return opaque("sets", node);
    case Kind::relation:
      return opaque("relation", node);
    case Kind::matrix:
      return opaque(node.text, node);
    case Kind::dots:
      return algebra_.opaque("dots", {});
  }
  return algebra_.undefined();
}

/// Its parts in order, with what stands before each.
Value Evaluator::opaque(std::string_view name, const Node& node) {
  std::string key(name);
  std::vector<Value> parts;
  for (std::int32_t k = 0; k < node.count; ++k) {
    key += ' ';
    key += tree_.link(node, k).code;
    parts.push_back(value(tree_.child(node, k)));
  }
  return algebra_.opaque(key, parts);
}

Value Evaluator::sum(const Node& node) {
  Value result = algebra_.integer(0);
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    const bool minus = link.code == '-' || (link.code == 'P' && !upper_) || (link.code == 'M' && upper_);
    const Value term = value(link.node);
    result = algebra_.add(result, minus ? algebra_.negate(term) : term);
  }
  return result;
}

Value Evaluator::product(const Node& node) {
  Value result = value(tree_.child(node, 0));
  for (std::int32_t k = 1; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    const Value factor = value(link.node);
    if (link.code == '*') result = algebra_.multiply(result, factor);
    else if (link.code == '/')
      result = budget_.spend(kDivisionSteps) ? algebra_.divide(result, factor) : algebra_.undefined();
    else if (link.code == 'm') result = algebra_.modulo(result, factor);
    else result = algebra_.opaque(std::string_view(&link.code, 1), {result, factor});
  }
  return result;
}

bool Evaluator::is_root_of_square(const Node& root) const noexcept {
  const Node& power = tree_.child_at(root, 0);
  if (root.count != 1 || power.kind != Kind::power || tree_.child_at(power, 1).text != "2") return false;
  const Node& base = tree_.child_at(power, 0);
  if (base.kind != Kind::sum || !has_symbols(tree_, tree_.child(power, 0))) return false;
  for (std::int32_t k = 0; k < base.count; ++k) {
    if (tree_.link(base, k).code == '-') return true;
  }
  return false;
}

Value Evaluator::absolute(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (is_never_negative(tree_, idx)) return value(idx);  // ln|x² + 1|
  if (node.kind != Kind::product || !has_symbols(tree_, idx)) return algebra_.absolute(value(idx));
  for (std::int32_t k = 1; k < node.count; ++k) {
    if (tree_.link(node, k).code != '*' && tree_.link(node, k).code != '/') return algebra_.absolute(value(idx));
  }
  Value result = algebra_.integer(1);
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    const Value factor = absolute(link.node);
    result = link.code == '/' ? algebra_.divide(result, factor) : algebra_.multiply(result, factor);
  }
  return result;
}

Value Evaluator::factorial(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  std::int64_t shift = 0;  // of n in (n + 2)!
  if (algebra_.prefers_products() && node.kind == Kind::sum && has_symbols(tree_, idx)) {
    for (std::int32_t k = 0; k < node.count; ++k) {
      const Link link = tree_.link(node, k);
      const Node& term = tree_.at(link.node);
      const bool digit =
          term.kind == Kind::number && term.text.size() == 1 && term.text[0] >= '0' && term.text[0] <= '9';
      if (digit) shift += link.code == '-' ? '0' - term.text[0] : term.text[0] - '0';
    }
  }
  const Value whole = value(idx);
  if (whole.is_integer() && !budget_.spend(std::clamp<std::int64_t>(whole.exact->q.numerator, 0, kMaxFactorial) / 20))
    return algebra_.undefined();  // a factor is two products in two fields and one of numbers
  Value result = algebra_.factorial(shift == 0 ? whole : algebra_.subtract(whole, algebra_.integer(shift)));
  for (std::int64_t j = 0; j < shift; ++j)
    result = algebra_.multiply(result, algebra_.subtract(whole, algebra_.integer(j)));
  for (std::int64_t j = 1; j <= -shift; ++j) result = algebra_.divide(result, algebra_.add(whole, algebra_.integer(j)));
  return result;
}

Value Evaluator::subscript(const Node& node) {
  const Node& base = tree_.child_at(node, 0);
  const Node& index = tree_.child_at(node, 1);
  if (base.kind == Kind::number && index.kind == Kind::number && index.text.size() <= 2) {
    int radix = 0;
    std::from_chars(index.text.data(), index.text.data() + index.text.size(), radix);
    const bool digits = std::all_of(base.text.begin(), base.text.end(),
                                    [radix](char c) { return c >= '0' && c <= '9' && c - '0' < radix; });
    if (digits && radix >= 2 && radix <= 36) return algebra_.in_base(base.text, radix);
    return algebra_.undefined();
  }
  if (base.kind == Kind::symbol) {
    const bool plain = index.kind == Kind::symbol || index.kind == Kind::number || index.kind == Kind::words;
    if (plain) return algebra_.symbol(std::string(base.text) + "_" + std::string(index.text));
  }
  return algebra_.opaque("_", {value(tree_.child(node, 0)), value(tree_.child(node, 1))});
}

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
  if (!budget_.spend(kRootSteps)) return algebra_.undefined();
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
  if (!budget_.spend(kRootSteps)) return algebra_.undefined();
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

Value Evaluator::named_call(const Node& node, const std::vector<Value>& arguments, const Value* index) {
  const std::string_view name = node.text;
  const auto is = [name](std::string_view a, std::string_view b) { return name == a || name == b; };
  const auto inverse_of = [this](const Value& v) { return algebra_.divide(algebra_.integer(1), v); };
  using Trig = Algebra::Trig;
  if (arguments.size() == 1 && index == nullptr) {
    const Value& a = arguments[0];
    if (name == "sin") return algebra_.trigonometric(Trig::sin, a);
    if (name == "cos") return algebra_.trigonometric(Trig::cos, a);
    if (name == "tan") return algebra_.trigonometric(Trig::tan, a);
    if (name == "cot")
      return algebra_.divide(algebra_.trigonometric(Trig::cos, a), algebra_.trigonometric(Trig::sin, a));
    if (name == "sec") return inverse_of(algebra_.trigonometric(Trig::cos, a));
    if (name == "csc") return inverse_of(algebra_.trigonometric(Trig::sin, a));
    if (is("arcsin", "asin")) return algebra_.inverse_trigonometric(Trig::sin, a);
    if (is("arccos", "acos")) return algebra_.inverse_trigonometric(Trig::cos, a);
    if (is("arctan", "atan")) return algebra_.inverse_trigonometric(Trig::tan, a);
    if (name == "sinh") return algebra_.hyperbolic(Trig::sin, a);
    if (name == "cosh") return algebra_.hyperbolic(Trig::cos, a);
    if (name == "tanh") return algebra_.hyperbolic(Trig::tan, a);
    if (name == "coth") return inverse_of(algebra_.hyperbolic(Trig::tan, a));
    if (name == "sech") return inverse_of(algebra_.hyperbolic(Trig::cos, a));
    if (name == "csch") return inverse_of(algebra_.hyperbolic(Trig::sin, a));
    if (name == "exp") return algebra_.power(algebra_.e(), a);
    if (name == "cis") {
      return algebra_.add(algebra_.trigonometric(Trig::cos, a),
                          algebra_.multiply(algebra_.i(), algebra_.trigonometric(Trig::sin, a)));
    }
    if (name == "cbrt") return algebra_.root(a, algebra_.integer(3));
    if (name == "abs") return algebra_.absolute(a);
    if (name == "floor") return algebra_.rounded(a, false);
    if (name == "ceil") return algebra_.rounded(a, true);
    if (name == "det" && node.count == 1) {
      if (const Node& argument = tree_.child_at(node, 0); argument.kind == Kind::matrix) return determinant(node);
    }
    if (is("overline", "bar") && !has_symbols(tree_, tree_.child(node, 0))) {
      return algebra_.opaque("overline", {a});
    }
  }
  const bool greatest = is("gcd", "gcf") || name == "hcf";
  const bool least = is("lcm", "lcd");
  const bool extreme = is("max", "min");
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

Value Evaluator::determinant(const Node& node) {
  const auto m = matrix(tree_.child(node, 0));
  if (!m || m->rows != m->columns || m->rows == 0 || m->rows > kMaxDeterminant) return opaque("det", node);
  const std::size_t n = m->rows;
  std::vector<std::size_t> columns(n);
  for (std::size_t k = 0; k < n; ++k) columns[k] = k;
  Value result = algebra_.integer(0);
  do {  // the sum over permutations: at most 24
    if (!budget_.spend(static_cast<std::int64_t>(n))) return algebra_.undefined();
    std::size_t inversions = 0;
    Value term = algebra_.integer(1);
    for (std::size_t r = 0; r < n; ++r) {
      term = algebra_.multiply(term, m->entries[r * n + columns[r]]);
      for (std::size_t s = 0; s < r; ++s) inversions += columns[s] > columns[r] ? 1 : 0;
    }
    result = algebra_.add(result, inversions % 2 != 0 ? algebra_.negate(term) : term);
  } while (std::next_permutation(columns.begin(), columns.end()));
  return result;
}

std::optional<MatrixValue> Evaluator::matrix(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (!budget_.spend()) return std::nullopt;
  if (node.kind == Kind::matrix || node.kind == Kind::tuple) {
    if (node.kind == Kind::matrix && node.text == "cases") return std::nullopt;
    MatrixValue m;
    const bool tuple = node.kind == Kind::tuple;
    if (tuple && node.count == 2 && (node.open == '[' || node.close == ']')) return std::nullopt;  // an interval
    m.columns = tuple ? 1 : static_cast<std::size_t>(node.columns);
    m.rows = m.columns == 0 ? 0 : static_cast<std::size_t>(node.count) / m.columns;
    for (std::int32_t k = 0; k < node.count; ++k) m.entries.push_back(value(tree_.child(node, k)));
    return m;
  }
  if (node.kind == Kind::product) return matrix_product(node);
  if (node.kind == Kind::power) {
    const Node& exponent = tree_.child_at(node, 1);
    const bool transposed = exponent.kind == Kind::symbol && (exponent.text == "T" || exponent.text == "top");
    auto m = transposed ? matrix(tree_.child(node, 0)) : std::nullopt;
    if (!m) return std::nullopt;
    MatrixValue t{m->columns, m->rows, {}};
    for (std::size_t r = 0; r < t.rows; ++r) {
      for (std::size_t c = 0; c < t.columns; ++c) t.entries.push_back(m->entries[c * m->columns + r]);
    }
    return t;
  }
  if (node.kind != Kind::sum) return std::nullopt;
  std::optional<MatrixValue> total;
  for (std::int32_t k = 0; k < node.count; ++k) {
    auto term = matrix(tree_.child(node, k));
    if (!term || (total && (term->rows != total->rows || term->columns != total->columns))) return std::nullopt;
    for (std::size_t j = 0; j < term->entries.size(); ++j) {
      Value& entry = term->entries[j];
      if (tree_.link(node, k).code == '-') entry = algebra_.negate(entry);
      if (total) entry = algebra_.add(total->entries[j], entry);
    }
    total = std::move(term);
  }
  return total;
}

std::optional<MatrixValue> Evaluator::matrix_product(const Node& node) {
  std::optional<MatrixValue> result;
  Value scale = algebra_.integer(1);
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    if (link.code == '*' || link.code == 0) {
      if (auto m = matrix(link.node)) {
        if (!result) {
          result = std::move(m);
          continue;
        }
        if (result->columns != m->rows) return std::nullopt;
        if (!budget_.spend(static_cast<std::int64_t>(result->rows * m->columns * m->rows))) return std::nullopt;
        MatrixValue next{result->rows, m->columns, {}};
        for (std::size_t r = 0; r < next.rows; ++r) {
          for (std::size_t c = 0; c < next.columns; ++c) {
            Value entry = algebra_.integer(0);
            for (std::size_t j = 0; j < m->rows; ++j) {
              entry = algebra_.add(
                  entry, algebra_.multiply(result->entries[r * result->columns + j], m->entries[j * m->columns + c]));
            }
            next.entries.push_back(entry);
          }
        }
        result = std::move(next);
        continue;
      }
      scale = algebra_.multiply(scale, value(link.node));
    } else if (link.code == '/') {
      scale = algebra_.divide(scale, value(link.node));
    } else {
      return std::nullopt;
    }
  }
  if (!result) return std::nullopt;
  for (Value& entry : result->entries) entry = algebra_.multiply(scale, entry);
  return result;
}

}  // namespace qrl::reward::math

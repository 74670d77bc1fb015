#include <algorithm>
#include <cmath>

#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

bool is_equality(char code) noexcept { return code == '=' || code == 'a' || code == 'c'; }

bool is_congruence(const Answer& x) noexcept { return x.code(1) == 'c' && modulus_of(x.at()); }

bool all_equalities(const Answer& x) noexcept {
  return std::ranges::all_of(x.at().rest(), [](const Node& side) { return is_equality(side.joint); });
}

/// Returns whether a formula looks like a side of an equation: a multiple of names or a linear form (2xy, m − n, m +
/// 2n). Excludes sums such as 100a + b, which are a requested quantity.
bool is_equation_side(const Node& at) noexcept {
  const auto is_linear = [](const Node& signed_term) {
    const Node& term = unsigned_of(signed_term);
    const bool multiple = term.is(Kind::product) && term.parts.size() == 2 && !has_symbols(term[0]);
    return multiple || term.is(Kind::symbol, Kind::subscript) || !has_symbols(term);
  };
  const auto is_plain = [](const Node& term) {
    if (term.joint == '-' || !term.is(Kind::product))
      return term.joint != '-' && term.is(Kind::symbol, Kind::subscript);
    return term[0].text.starts_with('1') && term[0].text.find_first_not_of('0', 1) == std::string_view::npos;
  };
  if (at.is(Kind::product)) return !has_symbols(at[0]);
  return at.is(Kind::sum) && std::ranges::all_of(at.parts, is_linear) && !std::ranges::all_of(at.parts, is_plain);
}

/// Returns whether `left` may name a constant or matrix: f(1) + f(2), x² + y², A^{-1}. An equation in one variable must
/// be solved instead.
bool names(const Node& left, const Answer& gold) {
  const bool matrix = gold.at().is(Kind::matrix), constant = gold.form == Form::value && !has_symbols(gold.at());
  if (matrix && left.is(Kind::power) && any_node(left[0], is_capital)) return true;
  const auto is_nameless_call = [](const Node& part) { return part.is(Kind::call) && part.text.empty(); };  // f(1)
  const bool several = variables_of(left).size() > 1 || any_node(left, is_nameless_call);
  return several && (matrix || (constant && !is_equation_side(left)));
}

}  // namespace

// ---- what a relation says

bool Equality::says(const Answer& relation, const Answer& other, bool gold) {
  const auto& parts = relation.parts;
  const Node& left = parts[0].at();
  const auto compare = [&](Answer said) {
    if (left.is(Kind::symbol, Kind::subscript)) said.notes.name = form_of(left);
    if (other.notes.name.size() < 3) said.notes.name.clear();  // the name of `other` is empty or a point's
    return gold ? same(said, other) : same(other, said);
  };
  // A gold n ≡ 42 (mod 100) does not equal a plain 42. n ≡ 42 without a modulus equals nothing. f(x) ≡ 42, an identity,
  // equals 42.
  const bool says_one =
      is_congruence(relation) ? !gold || modulus_of(other.at()) : left.is(Kind::call) || !has_symbols(left);
  if (relation.code(1) == 'c' && !says_one) return false;
  if (!all_equalities(relation) || !is_consistent(relation)) return false;
  // Takes the side before ≈ as the value, except in x ≈ 3.14, which has only the decimal.
  std::size_t last = parts.size() - 1;
  while (relation.code(last) == 'a') --last;
  if (parts[last].at().is(Kind::dots)) return false;  // 96 - 79 = ... is unfinished
  if (has_symbols(left)) {
    const bool named = is_name(left) || (!gold && depth_ == 1 && names(left, other));
    return named && compare(parts[std::max<std::size_t>(last, 1)]);
  }
  // "0 = x² − 1" does not give the answer "x² − 1".
  if (!has_symbols(parts[last].at()) && compare(parts[last])) return true;
  const auto is_plain = [](const Node& side) {
    return !has_symbols(side) || side.is(Kind::symbol, Kind::subscript, Kind::call);
  };
  return std::ranges::all_of(relation.at().parts, is_plain) && compare(parts[0]);  // 42 = x is 42; 42 = 42x is not
}

/// Returns whether all constants in a chain of equalities agree. After ≈, a constant may be rounded, even to an
/// integer. If an exact form such as 1/3 precedes ≈, the constant is ignored (x = 1/3 ≈ 0.3).
bool Equality::is_consistent(const Answer& relation) {
  const auto is_constant = [this](const Answer& x) {
    return !has_symbols(x.at()) && (x.form == Form::value ? value(x).constant : x.form != Form::text);
  };
  const Answer* before = nullptr;
  for (std::size_t k = 0; k < relation.parts.size(); ++k) {
    const Answer& next = relation.parts[k];
    const bool about = relation.code(k) == 'a';
    const bool stated = k > 1 && unsigned_of(relation.parts[k - 1].at()).kind != Kind::number;
    if ((about && stated) || !is_constant(next)) continue;
    if (before != nullptr && !is_same_constant(*before, next, about)) return false;
    before = &next;
  }
  return true;
}

/// Returns whether two constants are equal, or one is a rounded decimal of the other (5/6 = 0.833). Different units
/// disagree; a missing unit agrees with any unit (17 m = 17). `about`: ≈ is between the constants.
bool Equality::is_same_constant(const Answer& one, const Answer& other, bool about) {
  if (one.form != Form::value || other.form != Form::value) return same(one, other);
  const Value &first = value(one), &second = value(other);
  const auto p = first.real(), q = second.real();
  if (!p || !q) return same(one, other);
  const auto by = scales(one.notes.unit, other.notes.unit);
  if (!by) return false;
  const auto [of_first, of_second] = *by;
  const long double x = *p * of_first, y = *q * of_second;
  constexpr long double kRounding = 1e-9L, kAbout = 0.05L, kNeverRounded = 1000;
  long double allowed = kRounding * std::max(std::abs(x), std::abs(y));
  if (about && (!first.is_integer() || std::abs(x) >= kNeverRounded))
    allowed = std::max(kAbout * std::abs(x), second.is_integer() ? 0.5L * of_second : 0);
  // Allows half a unit of a decimal's last place, or one unit if it truncates a value with infinitely many places.
  // Allows two units if the other side has a root or π, whose factors may be rounded.
  const auto allow = [&](const Answer& decimal, long double of_decimal, const Value& of_other, bool cut) {
    constexpr std::size_t kMostPlaces = 18;  // maximum number of places of a terminating decimal
    const std::size_t places = places_of(decimal.at());
    if (places == 0) return;
    const bool rounded = of_other.exact && (!cut || ends_within(of_other.exact->denominator, kMostPlaces));
    const long double units = rounded ? 0.5L : of_other.exact ? 1 : 2;
    allowed =
        std::max(allowed, units * std::pow(10.0L, -static_cast<long double>(places)) * of_decimal * (1 + kRounding));
  };
  allow(one, of_first, second, std::abs(x) < std::abs(y));
  allow(other, of_second, first, std::abs(y) < std::abs(x));
  return std::abs(x - y) <= allowed;
}

// ---- two relations

bool Equality::same_relations(const Answer& g, const Answer& a) {
  const auto alike = [](const Node& one, const Node& other) {
    return one.joint == other.joint || (is_equality(one.joint) && is_equality(other.joint));
  };
  if (is_congruence(g) != is_congruence(a)) return false;
  if (std::ranges::equal(g.at().parts, a.at().parts, alike) && in_order(g.parts, a.parts)) return true;
  if (is_congruence(g)) return false;
  const std::size_t n = g.parts.size();
  bool turned = n == a.parts.size();  // a < b < c equals c > b > a
  for (std::size_t k = 0; turned && k < n; ++k)
    turned = (k == 0 || g.code(k) == reversed(a.code(n - k))) && same(g.parts[k], a.parts[n - 1 - k]);
  if (turned) return true;
  if (n != a.parts.size())
    return all_equalities(g) && all_equalities(a) && is_name(g.at()[0]) && is_name(a.at()[0]) &&
           same(g.parts.back(), a.parts.back()) && is_consistent(a);
  if (n != 2) return false;
  const int factor = proportion(g, a);
  if (!all_equalities(g) || !all_equalities(a))
    return factor != 0 && (factor > 0 ? g.code(1) : reversed(g.code(1))) == a.code(1);
  // y = 2x and f(x) = 2x are the same graph. x = 5 and y = 5 are different lines.
  const auto is_graph = [](const Node& side) {
    return side.text == "y" || (side.is(Kind::call) && has_symbols(side.parts.back()));
  };
  const Node &left = g.at()[0], &other = a.at()[0];
  if (left.kind != other.kind && is_graph(left) && is_graph(other) && same(g.parts[1], a.parts[1])) return true;
  return factor != 0 || solved_by(g, a) || solved_by(a, g);
}

/// Accepts y = f(x) for x = g(y) if f and g are inverse. Also accepts a solution of a(x)·y + b = 0 with constant b ≠ 0:
/// y = 6/x solves xy = 6.
bool Equality::solved_by(const Answer& solution, const Answer& equation) {
  // Returns the variable that is alone on `side`, if the other side is a formula without it; else "".
  const auto solved_for = [this](const Answer& of, std::size_t side) {
    const Node &name = of.at()[side], &by = of.at()[1 - side];
    const bool solved = name.is(Kind::symbol) && !has_symbol(by, name.text) && value(of.parts[1 - side]).image;
    return solved ? name.text : std::string_view();
  };
  const auto assigned = [this](const Answer& of, std::string_view variable, const Value& worth, std::size_t lane = 0) {
    Evaluator each = evaluator(of, lane);
    each.assign(variable, worth);
    return each.value(of.at());
  };
  const auto divides = [](const Node& part) {
    return (part.joint == '/' && has_symbols(part)) || (part.is(Kind::power) && part[1].is(Kind::sum));
  };
  const Algebra algebra;
  const Value zero = algebra.integer(0);
  for (const std::size_t k : {0, 1}) {
    const std::string_view variable = solved_for(solution, k);
    if (variable.empty()) continue;
    const Value &name = value(solution.parts[k]), &by = value(solution.parts[1 - k]);
    for (const std::size_t j : {0, 1}) {
      const std::string_view other = solved_for(equation, j);
      const Answer& back = equation.parts[1 - j];
      if (!other.empty() && equal(assigned(solution.parts[1 - k], other, value(back)), name) &&
          equal(assigned(back, variable, by), value(equation.parts[j])))
        return !budget_.spent();
    }
    const Answer &left = equation.parts[0], &right = equation.parts[1];
    const auto constant = [&](std::size_t lane) {
      return algebra.subtract(assigned(left, variable, zero, lane), assigned(right, variable, zero, lane));
    };
    const Value b = constant(0), all = algebra.subtract(value(left), value(right));
    const bool linear = equal(algebra.multiply(all, by), algebra.multiply(b, algebra.subtract(by, name)));
    if (linear && !variables_.signs && !b.is_zero() && equal(b, constant(2)) && !any_node(equation.at(), divides))
      return !budget_.spent();
  }
  return false;
}

/// Returns the sign of the constant ratio of the equations' differences (left minus right); 0 if the ratio is not
/// constant.
int Equality::proportion(const Answer& g, const Answer& a) {
  const auto may_be = [](const Answer& x) {
    const auto is_quantity = [](const Node& part) { return part.is(Kind::quantity); };  // units are no factors
    return has_symbols(x.at()) && !any_node(x.at(), is_quantity);
  };
  if (!may_be(g) || !may_be(a) || variables_.whole) return 0;
  const auto ratio = [&](std::size_t lane) {
    const Algebra algebra(lane);
    const auto difference = [&](const Answer& of) {
      return algebra.subtract(value(of.parts[0], lane), value(of.parts[1], lane));
    };
    return algebra.divide(difference(a), difference(g));
  };
  const Value first = ratio(0);
  if (first.is_zero() || !equal(first, ratio(2)) || budget_.spent()) return 0;  // both lanes use the same field
  return first.z.real() < 0 ? -1 : 1;
}

}  // namespace qrl::reward::math

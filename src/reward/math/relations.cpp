// Equations, inequalities and chains of them.
#include <algorithm>
#include <cmath>
#include <set>

#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMostPlaces = 18;  // of a decimal that ends

bool is_equality(char code) noexcept { return code == '=' || code == 'a' || code == 'c'; }

bool is_congruence(const Answer& x) noexcept {
  return x.form == Form::relation && x.parts.size() == 2 && x.code(1) == 'c' && modulus_of(x.at());
}

bool all_equalities(const Answer& x) noexcept {
  return std::ranges::all_of(x.at().rest(), [](const Node& side) { return is_equality(side.joint); });
}

/// x and 10x: a name, or a power of ten times one. `any`: a constant, or whatever times a name.
bool is_term(const Node& at, bool any) noexcept {
  if (!at.is(Kind::product) || at.parts.size() != 2 || has_symbols(at[0]))
    return at.is(Kind::symbol, Kind::subscript) || (any && !has_symbols(at));
  const std::string_view factor = at[0].text;
  const bool ten = factor.starts_with('1') && factor.find_first_not_of('0', 1) == std::string_view::npos;
  return (any || ten) && is_term(at[1], any);
}

/// 2xy, m − n, m + 2n: a multiple of names, or a linear form other than a sum of names and of powers of ten times them
/// (100a + b), which is the side of an equation rather than what is asked for.
bool is_equation_side(const Node& at) noexcept {
  if (at.is(Kind::product)) return !has_symbols(at[0]);
  const auto is_plain = [](const Node& term) { return term.joint != '-' && is_term(term, false); };
  return at.is(Kind::sum) &&
         std::ranges::all_of(at.parts, [](const Node& t) { return is_term(unsigned_of(t), true); }) &&
         (at.parts.size() == 1 || !std::ranges::all_of(at.parts, is_plain));
}

/// A^{-1}, A^T, (AB)^2: a power of a capital, an index of one or a product of them.
bool is_power_of_capitals(const Node& at) noexcept { return at.is(Kind::power) && any_node(at[0], is_capital); }

/// No division by variables.
bool is_polynomial(const Node& at) noexcept {
  return !any_node(at, [](const Node& part) {
    return (part.joint == '/' && has_symbols(part)) || (part.is(Kind::power) && part[1].is(Kind::sum));
  });
}

}  // namespace

// ---- what a relation says

bool Equality::says(const Answer& relation, const Answer& other, bool gold) {
  const auto& parts = relation.parts;
  const auto compare = [&](const Answer& value) {
    Answer said = value;
    if (parts[0].at().is(Kind::symbol, Kind::subscript)) said.notes.name = form_of(parts[0].at());
    if (other.notes.name.size() < 3) said.notes.name.clear();  // the name of a point, not of a variable
    return gold ? same(said, other) : same(other, said);
  };
  if (gold && is_congruence(relation) && !modulus_of(other.at())) return false;  // which of all?
  // n ≡ 42 names no congruence without its modulus; f(x) ≡ 42 is an identity.
  const bool identity = parts[0].at().kind == Kind::call || is_constant(parts[0]);
  if (parts.size() == 2 && relation.code(1) == 'c' && !is_congruence(relation) && !identity) return false;
  if (parts.size() == 2 && relation.code(1) == 'e')
    return !parts[0].at().is(Kind::product) && is_name(parts[0].at()) && compare(parts[1]);
  if (!all_equalities(relation) || !is_consistent(relation, gold)) return false;
  // What stands before an ≈ is the answer, what follows it illustrates.
  std::size_t last = parts.size() - 1;
  while (last > 0 && relation.code(last) == 'a') --last;
  if (!is_constant(parts[0])) {
    if (last == 0) last = 1;  // x ≈ 3.14 says no more
    const bool named = is_name(parts[0].at());
    return (named || (!gold && depth_ == 1 && names(parts[0], other))) && compare(parts[last]);
  }
  if (is_constant(parts[last]) && compare(parts[last])) return true;  // 0 = x² − 1 is not x² − 1
  const auto is_plain = [](const Node& side) {
    return !has_symbols(side) || side.is(Kind::symbol, Kind::subscript, Kind::call);
  };
  return std::ranges::all_of(relation.at().parts, is_plain) && compare(parts[0]);  // 42 = x is 42, 42 = 42x is not
}

/// Whether what an answer says to be equal to a constant or a matrix may be a name of it: f(1) + f(2), x² + y², A^{-1};
/// an equation in one variable is to be solved.
bool Equality::names(const Answer& left, const Answer& gold) const {
  const bool matrix = gold.at().is(Kind::matrix);
  if (matrix && is_power_of_capitals(left.at())) return true;
  const bool several = variables_of(left.at()).size() > 1 || any_node(left.at(), [](const Node& part) {
                         return part.is(Kind::call) && part.text.empty();  // f(1) + f(2)
                       });
  return (matrix || (gold.form == Form::value && is_constant(gold) && !is_equation_side(left.at()))) && several;
}

bool Equality::is_real_constant(const Answer& x) {
  const bool one = x.sign != 0 || !has_plus_minus(x.at());
  return x.form == Form::value && is_constant(x) && one && value(x).real().has_value();
}

/// A set, tuple, matrix, ±, ∞ or number that is not real, without symbols.
bool Equality::is_other_constant(const Answer& x) {
  if (!is_constant(x) || x.form != Form::value) return is_constant(x) && x.form != Form::text;
  const Value& number = value(x);
  return number.infinite != 0 || (!number.undefined && number.constant);
}

/// Whether each constant said to be equal to the one before is, so that two different answers are not two guesses. What
/// follows an ≈ may be rounded to an integer as well; in a gold answer it illustrates.
bool Equality::is_consistent(const Answer& relation, bool gold) {
  const Answer* before = nullptr;
  for (std::size_t k = 0; k < relation.parts.size(); ++k) {
    const Answer& next = relation.parts[k];
    const char code = relation.code(k);
    const bool stated = k > 1 && unsigned_of(relation.parts[k - 1].at()).kind != Kind::number;  // x = 1/3 ≈ …
    if (code == 'a' && (stated || gold)) continue;
    const bool real = is_real_constant(next);
    if (!real && (gold || code == 'a' || !is_other_constant(next))) continue;
    if (before != nullptr) {
      const bool numbers = real && is_real_constant(*before);
      const bool agree = numbers ? is_same_constant(*before, next, code == 'a') : same(*before, next);
      if (!agree) return false;
    }
    before = &next;
  }
  return true;
}

/// Equal, or one of them a decimal that the other gives when rounded: 5/6 = 0.833, 9π = 28.26. Different units do not
/// agree; a number without one is held against the other's number alone: 17 m = 17. `about`: by ≈.
bool Equality::is_same_constant(const Answer& one, const Answer& other, bool about) {
  const auto by = scales(one.notes.unit, other.notes.unit);
  if (!by) return false;
  const auto [of_first, of_second] = *by;
  const Value &first = value(one), &second = value(other);
  const long double x = *first.real() * of_first, y = *second.real() * of_second;
  constexpr long double kRounding = 1e-9L, kAbout = 0.05L, kNeverRounded = 1000;
  long double allowed = kRounding * std::max(std::abs(x), std::abs(y));
  if (about && (!first.is_integer() || std::abs(x) >= kNeverRounded))
    allowed = std::max(kAbout * std::abs(x), second.is_integer() ? 0.5L * of_second : 0);
  // A decimal may be what the other is to that place: cut off, where the other has no end, and of a root or π made of
  // rounded factors.
  const auto allow = [&](const Answer& decimal, long double of_decimal, const Value& of_other, bool cut) {
    const std::size_t places = places_of(decimal.at());
    if (places == 0) return;
    const bool ends = of_other.exact && ends_within(of_other.exact->denominator, kMostPlaces);
    const bool rounded = ends || (of_other.exact && !cut);
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
  if (is_congruence(g) || is_congruence(a)) return is_congruence(g) && is_congruence(a) && same_sides(g, a, false);
  if (g.parts.size() != a.parts.size()) {
    return all_equalities(g) && all_equalities(a) && same(g.parts.back(), a.parts.back()) && is_name(g.parts[0].at()) &&
           is_name(a.parts[0].at()) && is_consistent(a, false);
  }
  if (same_sides(g, a, false) || same_sides(g, a, true)) return true;
  if (g.parts.size() != 2) return false;
  const char x = g.code(1), y = a.code(1);
  if (is_equality(x) && is_equality(y))
    return same_graphs(g, a) || proportion(g, a) != 0 || solved_by(g, a) || solved_by(a, g);
  const int factor = is_order(x) ? proportion(g, a) : 0;
  return factor != 0 && (factor > 0 ? x : reversed(x)) == y;
}

/// One by one, from the left or, backward, from the right: a < b < c and c > b > a.
bool Equality::same_sides(const Answer& g, const Answer& a, bool backward) {
  const std::size_t n = g.parts.size();
  for (std::size_t k = 1; k < n; ++k) {
    const char x = g.code(k), y = backward ? reversed(a.code(n - k)) : a.code(k);
    if (x != y && !(n == 2 && is_equality(x) && is_equality(y))) return false;
  }
  for (std::size_t k = 0; k < n; ++k)
    if (!same(g.parts[k], a.parts[backward ? n - 1 - k : k])) return false;
  return true;
}

/// y = 2x and f(x) = 2x say the same of another name; x = 5 and y = 5 do not: they are lines.
bool Equality::same_graphs(const Answer& g, const Answer& a) {
  const auto is_graph = [](const Answer& left) {
    const Node& at = left.at();
    return left.form == Form::text || at.text == "y" || (at.is(Kind::call) && has_symbols(at.parts.back()));
  };
  const Answer &left = g.parts[0], &other = a.parts[0];
  return is_graph(left) && is_graph(other) && left.at().kind != other.at().kind && same(g.parts[1], a.parts[1]);
}

/// The variable that a side of an equation is where the other side is a formula without it; empty: there is none.
std::string_view Equality::solved_for(const Answer& equation, std::size_t side) {
  const Node &name = equation.parts[side].at(), &by = equation.parts[1 - side].at();
  const bool solved = name.is(Kind::symbol) && !has_symbol(by, name.text) && value(equation.parts[1 - side]).image;
  return solved ? name.text : std::string_view();
}

/// y = f(x) and an equation a(x) y + b(x) = 0 that holds there, where no solution has a = 0: y = 6/x and xy = 6, but
/// not y = x/x and xy = x.
bool Equality::solved_by(const Answer& solution, const Answer& equation) {
  for (const std::size_t k : {0, 1}) {
    const std::string_view variable = solved_for(solution, k);
    if (variable.empty() || !has_symbol(equation.at(), variable)) continue;
    const Answer& by = solution.parts[1 - k];
    const auto difference = [&](const Value& worth, std::size_t lane = 0) {
      Evaluator sides = evaluator(equation, lane);
      sides.assign(variable, worth);
      const Value left = sides.value(equation.parts[0].at());
      return Algebra(lane).subtract(left, sides.value(equation.parts[1].at()));
    };
    const Algebra algebra(0);
    const Value zero = algebra.integer(0);
    if (!equal(difference(value(by)), zero) || budget_.spent()) continue;
    // Solved for another letter: each variable is a function of the other.
    const std::size_t j = equation.parts[0].at().is(Kind::symbol) ? 0 : 1;
    const std::string_view other = solved_for(equation, j);
    if (!other.empty() && other != variable && has_symbol(by.at(), other)) {
      Evaluator inverse = evaluator(by);
      inverse.assign(other, value(equation.parts[1 - j]));
      if (equal(inverse.value(by.at()), algebra.symbol(variable)) && !budget_.spent()) return true;
      continue;
    }
    const Value at[] = {difference(zero), difference(algebra.integer(1)), difference(algebra.integer(2))};
    const Value slope = algebra.subtract(at[1], at[0]);
    const bool linear = equal(algebra.subtract(at[2], at[1]), slope) && at[0].image && is_polynomial(equation.at());
    if (linear && !slope.is_zero()) return equal(at[0], difference(zero, 2)) && !at[0].is_zero();
  }
  return false;
}

/// The sign of the constant by which left minus right of one is that of the other; 0 when there is none.
int Equality::proportion(const Answer& g, const Answer& a) {
  const auto may_be = [](const Answer& x) {
    const bool quantity =
        any_node(x.at(), [](const Node& part) { return part.is(Kind::quantity); });  // units are no factors
    return has_symbols(x.at()) && !quantity && !alternates(x);
  };
  if (!may_be(g) || !may_be(a)) return 0;
  // The ratio in two lanes of one field, whose sides are not both constants: 42 = 42 + 0x is proportional to any such.
  Value ratio[2], before[2];
  for (const std::size_t k : {0, 1}) {
    const Algebra algebra(2 * k);
    const auto difference = [&](const Answer& of) {
      return algebra.subtract(value(of.parts[0], 2 * k), value(of.parts[1], 2 * k));
    };
    const Value of_gold = difference(g), of_answer = difference(a);
    ratio[k] = algebra.divide(of_answer, of_gold);
    if (k == 1 && (equal(of_gold, before[0]) || equal(of_answer, before[1]))) return 0;
    before[0] = of_gold, before[1] = of_answer;
  }
  if (budget_.spent() || ratio[0].is_zero() || !equal(ratio[0], ratio[1])) return 0;
  return ratio[0].z.real() < 0 ? -1 : 1;
}

}  // namespace qrl::reward::math

// Equations, inequalities and chains of them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "reward/math/cleared.h"
#include "reward/math/comparer.h"
#include "reward/math/forms.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMostPlaces = 18;  // of a decimal that ends

/// What one unit of the last place of a decimal is worth. `about`: also of an integer, whose zeros behind its first two
/// digits may be rounded, and of either in percent, degrees or times a power of ten.
std::optional<long double> last_place(const Tree& tree, NodeIdx idx, bool about) noexcept {
  const Node& outer = tree.at(idx);
  const Node& node = outer.kind == Kind::sum && outer.count == 1 ? tree.child_at(outer, 0) : outer;
  const auto times = [&](long double factor) {
    const auto place = last_place(tree, tree.child(node, 0), about);
    return place ? std::optional(*place * factor) : std::nullopt;
  };
  if (about && node.kind == Kind::percent) return times(0.01L);
  if (about && node.kind == Kind::degree) return times(std::numbers::pi_v<long double> / 180);
  if (about && node.kind == Kind::product && node.count == 2 && tree.child_at(node, 1).kind == Kind::power) {
    const Node& power = tree.child_at(node, 1);
    const Node& sign = tree.child_at(power, 1);
    const bool negative = sign.kind == Kind::sum && sign.count == 1;
    const std::string_view digits = (negative ? tree.child_at(sign, 0) : sign).text;
    if (tree.child_at(power, 0).text != "10" || digits.empty() || digits.size() > 2) return std::nullopt;
    int exponent = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    return times(std::pow(10.0L, negative ? -exponent : exponent));
  }
  if (node.kind != Kind::number || node.text.find_first_of("e(") != std::string_view::npos) return std::nullopt;
  const std::size_t point = node.text.find('.');
  if (point != std::string_view::npos) return std::pow(10.0L, -static_cast<long double>(node.text.size() - point - 1));
  constexpr std::size_t kFirstDigits = 2;
  const std::size_t zeros = node.text.size() - 1 - std::min(node.text.find_last_not_of('0'), node.text.size() - 1);
  const std::size_t most = node.text.size() - std::min(node.text.size(), kFirstDigits);
  return about ? std::optional(std::pow(10.0L, static_cast<long double>(std::min(zeros, most)))) : std::nullopt;
}

}  // namespace

bool Comparer::is_equality(char code) noexcept { return code == '=' || code == 'a' || code == 'c'; }

bool Comparer::is_value_of(Side side, Item relation, Item other) {
  const Node& node = at(side, relation);
  const auto compare = [&](Item value) { return side == Side::gold ? same(value, other) : same(other, value); };
  const NodeIdx other_modulus = modulus_of(tree(side == Side::gold ? Side::answer : Side::gold), other.node);
  if (side == Side::gold && is_congruence(side, relation) && other_modulus < 0) return false;  // which of all?
  // n ≡ 42 names no congruence without its modulus; f(x) ≡ 42 is an identity.
  const Kind of = tree(side).child_at(node, 0).kind;
  const bool identity = of == Kind::call || !has_symbols(tree(side), tree(side).child(node, 0));
  if (node.count == 2 && tree(side).link(node, 1).code == 'c' && !is_congruence(side, relation) && !identity)
    return false;
  if (!is_consistent(side, relation)) return false;
  const char last_code = tree(side).link(node, node.count - 1).code;
  if (node.count == 2 && last_code == 'e')
    return is_variable(tree(side), tree(side).child(node, 0)) && compare(part(side, relation, 1));
  for (std::int32_t k = 1; k < node.count; ++k) {
    if (!is_equality(tree(side).link(node, k).code)) return false;
  }
  // What stands before an ≈ is the answer, what follows it illustrates.
  std::int32_t last = node.count - 1;
  while (last > 0 && tree(side).link(node, last).code == 'a') --last;
  NodeIdx first = tree(side).child(node, 0);
  if (tree(side).at(first).kind == Kind::quantity)
    first = tree(side).child(tree(side).at(first), 0);  // words are no variables
  if (has_symbols(tree(side), first)) {
    if (last == 0) last = 1;  // x ≈ 3.14 says no more
    const bool number = node.count == 2 && tree(side).child_at(node, 1).kind == Kind::number;
    const bool named = is_name(tree(side), first) || (number && is_sum_of_names(tree(side), first));
    if (!named && !(side == Side::answer && depth_ == 1 && names_gold(first, other))) return false;
    return compare(part(side, relation, last));
  }
  const Item said_last = part(side, relation, last);  // 0 = x² − 1 is not x² − 1
  const bool constant = !has_symbols(tree(side), amount(side, said_last).number.node);
  if (constant && compare(said_last)) return true;
  for (std::int32_t k = 1; k < node.count; ++k) {  // 42 = x is 42, 42 = 42x is not
    const Item said = part(side, relation, k);
    if (!has_symbols(tree(side), amount(side, said).number.node)) continue;
    const Kind kind = at(side, said).kind;
    if (kind != Kind::symbol && kind != Kind::subscript && kind != Kind::call) return false;
  }
  return compare(part(side, relation, 0));
}

bool Comparer::names_gold(NodeIdx left, Item gold) const {
  const bool matrix = is_matrix(gold_, gold.node);
  if (matrix && is_power_of_capital(answer_, left)) return true;
  const bool constant = !is_collection(at(Side::gold, gold)) && !is_set_like(gold_, gold.node) &&
                        !has_symbols(gold_, amount(Side::gold, gold).number.node);
  return (matrix || (constant && !is_equation_side(answer_, left))) && count_names(answer_, left) > 1;
}

bool Comparer::is_consistent(Side side, Item relation) {
  const Node& node = at(side, relation);
  std::optional<Amount> before;  // the last constant, real or not
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Item item = part(side, relation, k);
    const char code = tree(side).link(node, k).code;
    if (k > 0 && !is_equality(code)) return true;
    const bool stated = k > 1 && !is_plain_number(side, part(side, relation, k - 1));  // x = 1/3 ≈ …
    if (code == 'a' && (stated || side == Side::gold)) continue;
    Amount next = amount(side, item);
    const bool real = is_real_constant(side, next.number);
    if (!real && (side == Side::gold || code == 'a' || !is_other_constant(side, next.number))) continue;
    if (before) {
      const bool both_real = real && is_real_constant(side, before->number);
      const bool same = both_real ? is_same_constant(side, *before, next, code == 'a')
                                  : says_the_same(side, before->number, next.number);
      if (!same) return false;
    }
    before = std::move(next);
  }
  return true;
}

bool Comparer::is_real_constant(Side side, Item item) {
  return !is_collection(at(side, item)) && !has_symbols(tree(side), item.node) &&
         !has_plus_minus(tree(side), item.node) && value(side, item).real().has_value();
}

bool Comparer::is_other_constant(Side side, Item item) {
  if (has_symbols(tree(side), item.node)) return false;
  if (is_collection(at(side, item)) || is_set_like(tree(side), item.node) || at(side, item).kind == Kind::matrix)
    return true;
  if (has_plus_minus(tree(side), item.node)) return item.sign == 0;
  const Value& number = value(side, item);  // calls of f have one, too
  return number.infinite != 0 || (is_arithmetic(tree(side), item.node) && !number.undefined && !number.real());
}

bool Comparer::says_the_same(Side side, Item one, Item other) {
  Comparer within(tree(side), tree(side));
  within.budget_ = budget_;
  within.depth_ = depth_;
  const bool same = within.same(one, other);
  budget_ = within.budget_;
  return same;
}

bool Comparer::is_same_constant(Side side, const Amount& one, const Amount& other, bool about) {
  const bool has_units = !one.unit.dimensions.empty() && !other.unit.dimensions.empty();
  if (has_units && one.unit.dimensions != other.unit.dimensions) return false;
  const Value &first = value(side, one.number), &second = value(side, other.number);
  const long double of_first = one.scale * (has_units ? one.unit.factor : 1);
  const long double of_second = other.scale * (has_units ? other.unit.factor : 1);
  const long double x = *first.real() * of_first, y = *second.real() * of_second;
  constexpr long double kRounding = 1e-9L;
  constexpr long double kAbout = 1e-3L;  // with 3.14 for π
  const bool rational = first.is_rational() && second.is_rational();
  long double allowed = (about && !rational ? kAbout : kRounding) * std::max(std::abs(x), std::abs(y));
  // A decimal may be what the other is to that place: cut off, where the other has no end, and of a root or π made of
  // rounded factors.
  const auto allow = [&](const Amount& decimal, long double of_decimal, const Value& of_other, bool is_second) {
    const auto place = last_place(tree(side), decimal.number.node, about && is_second);
    if (!place) return;
    const bool ends = of_other.is_rational() && ends_within(of_other.exact->q.denominator, kMostPlaces);
    const bool cut = is_second ? std::abs(y) < std::abs(x) : std::abs(x) < std::abs(y);
    const bool rounded = ends || *place >= 1 || (of_other.is_rational() && !cut);
    const long double units = rounded ? 0.5L : of_other.is_rational() ? 1 : 2;
    allowed = std::max(allowed, units * *place * of_decimal * (1 + kRounding));
  };
  allow(one, of_first, second, false);
  allow(other, of_second, first, true);
  return std::abs(x - y) <= allowed;
}

bool Comparer::is_congruence(Side side, Item relation) const noexcept {
  const Node& node = at(side, relation);
  return node.kind == Kind::relation && node.count == 2 && tree(side).link(node, 1).code == 'c' &&
         modulus_of(tree(side), relation.node) >= 0;
}

char Comparer::reversed(char code) noexcept {
  switch (code) {
    case '<':
      return '>';
    case '>':
      return '<';
    case 'l':
      return 'g';
    case 'g':
      return 'l';
    default:
      return code;
  }
}

bool Comparer::same_relations(Item g, Item a) {
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  if (is_congruence(Side::gold, g) || is_congruence(Side::answer, a)) {
    return is_congruence(Side::gold, g) && is_congruence(Side::answer, a) && same_pair(g, a, true, false);
  }
  if (gold.count == 2 && answer.count == 2) {
    const char x = gold_.link(gold, 1).code;
    const char y = answer_.link(answer, 1).code;
    if (is_equality(x) && is_equality(y)) return same_equations(g, a);
    if (same_pair(g, a, x == y, false)) return true;
    if (x == 'e' && y == 'e') {  // of another variable, not of 2x
      const bool variables = is_variable(gold_, gold_.child(gold, 0)) && is_variable(answer_, answer_.child(answer, 0));
      return variables && same(part(Side::gold, g, 1), part(Side::answer, a, 1));
    }
    const bool ordered = x == '<' || x == '>' || x == 'l' || x == 'g';
    if (x == 'n' && y == 'n') return proportion(g, a) != 0;
    if (!ordered) return false;
    const int factor = proportion(g, a);
    return factor != 0 && (factor > 0 ? x : reversed(x)) == y;
  }
  if (gold.count != answer.count) {
    const bool equations = all_equalities(Side::gold, gold) && all_equalities(Side::answer, answer);
    return equations && same(part(Side::gold, g, gold.count - 1), part(Side::answer, a, answer.count - 1)) &&
           is_name(gold_, gold_.child(gold, 0)) && is_name(answer_, answer_.child(answer, 0));
  }
  return same_chains(g, a);
}

bool Comparer::all_equalities(Side side, const Node& node) const noexcept {
  for (std::int32_t k = 1; k < node.count; ++k) {
    if (!is_equality(tree(side).link(node, k).code)) return false;
  }
  return true;
}

bool Comparer::same_pair(Item g, Item a, bool allowed, bool swapped) {
  return allowed && same(part(Side::gold, g, 0), part(Side::answer, a, swapped ? 1 : 0)) &&
         same(part(Side::gold, g, 1), part(Side::answer, a, swapped ? 0 : 1));
}

bool Comparer::same_equations(Item g, Item a) {
  if (same_pair(g, a, true, false) || same_pair(g, a, true, true)) return true;
  // y = 2x and f(x) = 2x say the same of another name; x = 5 and y = 5 do not: they are lines.
  const auto is_function_of_variable = [this](Side side, Item left) {
    const Node& call = at(side, left);
    return call.kind == Kind::call && has_symbols(tree(side), tree(side).child(call, call.count - 1));
  };
  const auto is_graph = [this](Side side, Item left) {
    const Node& name = at(side, left);
    return name.kind == Kind::words || (name.kind == Kind::symbol && name.text == "y");
  };
  const Item left = part(Side::gold, g, 0);
  const Item other = part(Side::answer, a, 0);
  const bool renamed = same_term(gold_, left.node, answer_, other.node) ||
                       (is_function_of_variable(Side::gold, left) && is_graph(Side::answer, other)) ||
                       (is_graph(Side::gold, left) && is_function_of_variable(Side::answer, other));
  if (renamed && same(part(Side::gold, g, 1), part(Side::answer, a, 1))) return true;
  return proportion(g, a) != 0 || same_solved(g, a) || same_cleared(g, a) || same_assigned(g, a);
}

std::optional<Item> Comparer::solved_for(Side side, Item relation, std::string_view& variable) const {
  const Tree& of = tree(side);
  for (std::int32_t k = 0; k < 2; ++k) {
    const Item name = part(side, relation, k);
    const Item solution = part(side, relation, 1 - k);
    if (at(side, name).kind != Kind::symbol || !is_rational_function(of, solution.node)) continue;
    if (has_symbol(of, solution.node, at(side, name).text)) continue;
    variable = at(side, name).text;
    return solution;
  }
  return std::nullopt;
}

bool Comparer::same_solved(Item g, Item a) {
  std::string_view of_gold, of_answer;
  const auto x = solved_for(Side::gold, g, of_gold);
  const auto y = solved_for(Side::answer, a, of_answer);
  if (!x || !y || of_gold == of_answer) return false;
  // Each variable is a function of the other, so that either equation holds nowhere else.
  const auto holds = [this](Side side, Item solution, std::string_view variable, Side other, Item other_relation) {
    const Value& assigned = value(side, solution);
    Evaluator evaluator(tree(other), algebra_, budget_);
    evaluator.assign(variable, assigned);
    const Value left = evaluator.value(part(other, other_relation, 0).node);
    return equal(left, evaluator.value(part(other, other_relation, 1).node)) && !budget_.spent();
  };
  return has_symbol(answer_, y->node, of_gold) && has_symbol(gold_, x->node, of_answer) &&
         holds(Side::gold, *x, of_gold, Side::answer, a) && holds(Side::answer, *y, of_answer, Side::gold, g);
}

bool Comparer::same_cleared(Item g, Item a) {
  if (g.sign != 0 || a.sign != 0 || !may_be_proportional(g, a)) return false;
  const auto cleared = [this](Side side, Item relation) {
    return clear_denominators(tree(side), part(side, relation, 0).node, part(side, relation, 1).node, algebra_,
                              budget_);
  };
  const auto x = cleared(Side::gold, g);
  if (!x) return false;
  const auto y = cleared(Side::answer, a);
  return y && (x->had_denominators || y->had_denominators) && sign_of_ratio(x->value, y->value) != 0;
}

bool Comparer::same_assigned(Item g, Item a) {
  const auto sides = [this](Side side, Item relation) {
    return std::pair{entries(side, part(side, relation, 0)), entries(side, part(side, relation, 1))};
  };
  for (const auto& [side, relation] : {std::pair{Side::gold, g}, std::pair{Side::answer, a}}) {
    if (at(side, part(side, relation, 0)).kind != Kind::tuple || at(side, part(side, relation, 1)).kind != Kind::tuple)
      return false;
  }
  const auto [names, values] = sides(Side::gold, g);
  const auto [other_names, other_values] = sides(Side::answer, a);
  const std::size_t n = names.size();
  if (n > 8 || values.size() != n || other_names.size() != n || other_values.size() != n) return false;
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < n; ++i) {
    const Node& name = at(Side::gold, names[i]);
    if (name.kind != Kind::symbol || std::find(seen.begin(), seen.end(), name.text) != seen.end()) return false;
    seen.push_back(name.text);
    const auto k = std::find_if(other_names.begin(), other_names.end(), [&](Item other) {
      return at(Side::answer, other).kind == Kind::symbol && at(Side::answer, other).text == name.text;
    });
    if (k == other_names.end()) return false;
    if (!same(values[i], other_values[static_cast<std::size_t>(k - other_names.begin())])) return false;
  }
  return true;
}

bool Comparer::may_be_proportional(Item g, Item a) const {
  if (!has_symbols(gold_, g.node) || !has_symbols(answer_, a.node)) return false;
  if (has_quantity(gold_, g.node) || has_quantity(answer_, a.node)) return false;  // units are no factors
  return !alternates(gold_, g.node) && !alternates(answer_, a.node);
}

int Comparer::proportion(Item g, Item a) {
  if (!may_be_proportional(g, a)) return 0;
  const auto difference_of = [&](Side side, Item relation) {
    const Value left = value(side, part(side, relation, 0));
    return algebra_.subtract(left, value(side, part(side, relation, 1)));
  };
  const Value x = difference_of(Side::gold, g);
  const Value y = difference_of(Side::answer, a);
  return sign_of_ratio(x, y);
}

int Comparer::sign_of_ratio(const Value& x, const Value& y) const {
  if (budget_.spent() || x.undefined || y.undefined || x.infinite != 0 || y.infinite != 0) return 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (x.f[lane].is_zero() || y.f[lane].is_zero()) return 0;
  }
  // Lanes 0 and 1 are the same field under two assignments: x0/y0 = x1/y1.
  const Field& field = field_of(0);
  if (!(field.multiply(x.f[0], y.f[1]) == field.multiply(x.f[1], y.f[0]))) return 0;
  // A constant on both sides (42 = 42 + 0x) is proportional to anything constant.
  if (x.f[0] == x.f[1] || y.f[0] == y.f[1]) return 0;
  const Complex ratio = y.z[0] / x.z[0];
  return std::isfinite(ratio.real()) && ratio.real() < 0 ? -1 : 1;
}

bool Comparer::same_chains(Item g, Item a) {
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  const std::int32_t n = gold.count;
  bool forward = true;
  bool backward = true;
  for (std::int32_t k = 1; k < n; ++k) {
    const char code = gold_.link(gold, k).code;
    forward = forward && code == answer_.link(answer, k).code;
    backward = backward && code == reversed(answer_.link(answer, n - k).code);
  }
  const auto parts_same = [&](bool reverse) {
    for (std::int32_t k = 0; k < n; ++k) {
      if (!same(part(Side::gold, g, k), part(Side::answer, a, reverse ? n - 1 - k : k))) return false;
    }
    return true;
  };
  return (forward && parts_same(false)) || (backward && parts_same(true));
}

}  // namespace qrl::reward::math

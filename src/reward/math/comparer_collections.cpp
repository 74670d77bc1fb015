// Lists, tuples, sets, ratios, matrices, and sets of reals.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "reward/math/comparer.h"
#include "reward/math/forms.h"
#include "reward/math/reals.h"
#include "reward/math/texts.h"

namespace qrl::reward::math {

namespace {

constexpr std::int32_t kMaxList = 1000;
constexpr std::size_t kMaxCases = 32;

}  // namespace

std::vector<Item> Comparer::members(Side side, Item item) const {
  const Node& node = at(side, item);
  std::vector<Item> out;
  const auto add = [&](Item member) {
    if (is_both_signs(side, member)) {
      out.push_back({member.node, 1});
      out.push_back({member.node, -1});
    } else {
      out.push_back(member);
    }
  };
  if (!is_collection(node)) {
    add(item);
  } else {
    for (std::int32_t k = 0; k < node.count; ++k) add(part(side, item, k));
  }
  return out;
}

bool Comparer::has_dots(Side side, Item item) const noexcept {
  const Node& node = at(side, item);
  for (std::int32_t k = 0; k < node.count; ++k) {
    if (tree(side).child_at(node, k).kind == Kind::dots) return true;
  }
  return false;
}

std::optional<Comparer::Family> Comparer::family(Side side, Item item) const {
  const Node& node = at(side, item);
  const bool described = (node.kind == Kind::list && node.count == 2) || node.kind == Kind::set_builder;
  if (!described || at(side, part(side, item, 1)).kind != Kind::relation) return std::nullopt;
  const Item membership = part(side, item, 1);
  const Node& relation = at(side, membership);
  const Node& parameter = at(side, part(side, membership, 0));
  const Node& domain = at(side, part(side, membership, 1));
  const bool integers = domain.kind == Kind::symbol && (domain.text == "Z" || text_key(domain.text) == "z");
  if (relation.count != 2 || tree(side).link(relation, 1).code != 'e' || !integers || parameter.kind != Kind::symbol)
    return std::nullopt;
  Item member = part(side, item, 0);
  if (at(side, member).kind == Kind::relation) {  // x = kπ
    const Node& equation = at(side, member);
    if (equation.count != 2 || tree(side).link(equation, 1).code != '=' ||
        !is_name(tree(side), tree(side).child(equation, 0)))
      return std::nullopt;
    member = part(side, member, 1);
  }
  if (is_collection(at(side, member)) || has_plus_minus(tree(side), member.node)) return std::nullopt;
  return Family{member, parameter.text};
}

bool Comparer::same_families(Item g, Item a) {
  const auto gold = family(Side::gold, g);
  const auto answer = family(Side::answer, a);
  if (!gold || !answer) return false;
  return same_under_names(gold->member, gold->parameter, answer->member, answer->parameter);
}

bool Comparer::same_under_names(Item g, std::string_view of_gold, Item a, std::string_view of_answer) {
  const Value letter = algebra_.symbol(of_gold);
  Evaluator evaluator(answer_, algebra_, budget_, a.sign >= 0);
  evaluator.assign(of_answer, letter);
  return equal(value(Side::gold, g), evaluator.value(a.node)) && !budget_.spent();
}

bool Comparer::same_renamed(Item g, Item a) {
  const FreeLetter gold = free_letter(gold_, g.node), answer = free_letter(answer_, a.node);
  if (gold.name.empty() || answer.name.empty() || gold.name == answer.name || gold.is_integer != answer.is_integer)
    return false;
  if (has_symbol(gold_, g.node, answer.name) || has_symbol(answer_, a.node, gold.name)) return false;
  return same_under_names(g, gold.name, a, answer.name);
}

bool Comparer::same_collections(Item g, Item a) {
  if (same_families(g, a)) return true;
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  if (gold.count > kMaxList || answer.count > kMaxList) return false;
  // "AC" names the choices A and C.
  const auto letters = [this](Side side, Item item) {
    std::string all(capitals(tree(side), item.node).letters);
    for (const Item member : members(side, item)) {
      const Node& node = at(side, member);
      if (node.kind == Kind::symbol && node.text.size() == 1 && node.text[0] <= 'Z') all += node.text;
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  if (is_collection(gold) != is_collection(answer)) {
    const Node& list = is_collection(gold) ? gold : answer;
    const std::string of_gold = letters(Side::gold, g);
    const std::string of_answer = letters(Side::answer, a);
    if (list.kind == Kind::list && of_gold.size() == static_cast<std::size_t>(list.count) && of_gold == of_answer)
      return true;
  }
  // {∅} has a member, ∅ has none.
  if ((gold.kind == Kind::set && is_set_like(answer_, a.node)) ||
      (answer.kind == Kind::set && is_set_like(gold_, g.node)))
    return false;
  const bool gold_tuple = gold.kind == Kind::tuple;
  const bool answer_tuple = answer.kind == Kind::tuple;
  const std::vector<Item> x = members(Side::gold, g);
  const std::vector<Item> y = members(Side::answer, a);
  if (gold_tuple && answer_tuple) {
    const bool brackets = (gold.open == answer.open && gold.close == answer.close) || gold.count != 2;
    return brackets && in_order(x, y);
  }
  if (gold_tuple || answer_tuple) {
    const Node& tuple = gold_tuple ? gold : answer;
    const Node& other = gold_tuple ? answer : gold;
    const bool point = tuple.open == '(' && tuple.close == ')';
    if (const auto named = gold_tuple ? named_coordinates(Side::answer, a) : named_coordinates(Side::gold, g))
      return point && (gold_tuple ? in_order(x, *named) : in_order(*named, y));
    if (other.kind == Kind::list) {
      if (point && in_order(x, y)) return true;
      if (gold_tuple ? y.size() != 1 : x.size() != 1) return false;  // p = 5, q = 2: a list of one is its member
    }
    if (other.kind != Kind::list || other.count != 1) return false;
  }
  if (has_dots(Side::gold, g) || has_dots(Side::answer, a)) return in_order(x, y);
  // 1, 1, 2 is not 1, 2; solutions in brackets are often named twice.
  const bool counted = gold.kind == Kind::list && answer.kind == Kind::list && !is_collection(at(Side::gold, x[0]));
  return as_sets(x, y, counted);
}

std::optional<std::vector<Item>> Comparer::named_coordinates(Side side, Item item) const {
  const Node& node = at(side, item);
  if (node.kind != Kind::list && node.kind != Kind::matrix) return std::nullopt;
  std::vector<std::pair<char, Item>> named;
  for (const Item member : entries(side, item)) {
    const Node& equation = at(side, member);
    if (equation.kind != Kind::relation || equation.count != 2 || tree(side).link(equation, 1).code != '=')
      return std::nullopt;
    const Node& name = at(side, part(side, member, 0));
    if (name.kind != Kind::symbol || name.text.size() != 1) return std::nullopt;
    named.emplace_back(name.text[0], member);
  }
  std::sort(named.begin(), named.end(), [](const auto& one, const auto& other) { return one.first < other.first; });
  std::vector<Item> ordered;
  for (std::size_t k = 0; k < named.size(); ++k) {
    const bool next = k == 0 || named[k].first == named[k - 1].first + 1;
    const bool third = k == 1 && named[0].first == 'x' && named[1].first == 'z';
    if (!next && !third) return std::nullopt;
    ordered.push_back(named[k].second);
  }
  return ordered;
}

bool Comparer::in_order(const std::vector<Item>& x, const std::vector<Item>& y) {
  if (x.size() != y.size()) return false;
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (!same(x[k], y[k])) return false;
  }
  return true;
}

std::vector<std::string> Comparer::labels(Side side, const std::vector<Item>& items) const {
  std::vector<std::string> out(items.size());
  for (std::size_t k = 0; k < items.size(); ++k) {
    const Node& node = at(side, items[k]);
    if (node.kind == Kind::quantity) out[k] = text_key(at(side, part(side, items[k], 1)).text);
    if (out[k].size() > 3 && out[k].back() == 's') out[k].pop_back();
  }
  return out;
}

Comparer::Place Comparer::place(Side side, Item item, const Value* number) {
  // Their roots are independent over the rationals: no two tuples of different integers stand at the same place.
  constexpr long double kRadicands[] = {2, 3, 5, 7, 11, 13};
  const long double of_imaginary = std::sqrt(17.0L);
  // Some times what near() and rounds() allow, as parts are added up.
  constexpr long double kRelative = 1e-8L, kAbsolute = 1e-5L;
  Place place;
  const auto add = [&](const Value& value, long double weight) {
    const Complex z = value.z[0];
    place.at += weight * (z.real() + of_imaginary * z.imag());
    place.reach += weight * (kRelative * std::abs(z) + kAbsolute);
  };
  if (number != nullptr) {
    if (number->undefined || number->infinite != 0) return {};
    add(*number, 1);
    place.num_numbers = 1;
  }
  const Node& node = at(side, item);
  const bool tuple = node.kind == Kind::tuple && node.count <= static_cast<std::int32_t>(std::size(kRadicands));
  for (std::int32_t k = 0; tuple && k < node.count; ++k) {
    const Item member = part(side, item, k);
    const bool constant = is_arithmetic(tree(side), member.node) && !has_symbols(tree(side), member.node) &&
                          !has_plus_minus(tree(side), member.node) && modulus_of(tree(side), member.node) < 0;
    if (!constant || !value(side, member).real()) return {};
    add(value(side, member), std::sqrt(kRadicands[k]));
    place.num_numbers = k + 2;  // a tuple of one number is none
  }
  return std::isfinite(place.at) && std::isfinite(place.reach) ? place : Place{};
}

Comparer::Member Comparer::member(Side side, Item item, std::string_view label) {
  const Kind kind = at(side, item).kind;
  const bool number = kind == Kind::number || kind == Kind::sum || kind == Kind::product || kind == Kind::power ||
                      kind == Kind::root || kind == Kind::mixed;
  const Value* worth = number && !alternates(tree(side), item.node) ? &value(side, item) : nullptr;
  return {item, label, worth, place(side, item, worth)};
}

namespace {

/// Those of `sorted`, in the order of their places, that may equal one at `place`: those of its kind within its reach,
/// then those of other kinds. [begin, end) each.
template <class Place, class Member>
std::array<std::pair<std::size_t, std::size_t>, 3> candidates(const std::vector<Member>& sorted, const Place& place) {
  if (place.num_numbers == 0) return {{{0, sorted.size()}, {0, 0}, {0, 0}}};
  const auto first_from = [&](long double at) {
    const auto before = [](const Member& member, const Place& bound) { return member.place < bound; };
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), Place{place.num_numbers, at}, before);
    return static_cast<std::size_t>(found - sorted.begin());
  };
  constexpr long double kAll = std::numeric_limits<long double>::infinity();
  return {{{first_from(place.at - place.reach), first_from(place.at + place.reach)},
           {0, first_from(-kAll)},
           {first_from(kAll), sorted.size()}}};
}

}  // namespace

bool Comparer::as_sets(const std::vector<Item>& x, const std::vector<Item>& y, bool counted) {
  if (counted && x.size() != y.size()) return false;
  const std::size_t most = std::max(x.size(), y.size());
  if (most > 2 * std::min(x.size(), y.size()) + 2) return false;
  const std::vector<std::string> x_labels = labels(Side::gold, x);
  const std::vector<std::string> y_labels = labels(Side::answer, y);
  // 3 apples are not 3 pears where the other side has apples, too.
  const std::set<std::string_view> of_gold(x_labels.begin(), x_labels.end());
  const std::set<std::string_view> of_answer(y_labels.begin(), y_labels.end());
  const auto of_other_things = [&](std::string_view label, std::string_view other) {
    if (label.empty() || other.empty() || label == other) return false;
    return of_answer.contains(label) || of_gold.contains(other);
  };
  constexpr std::size_t kPairs = 2;  // that cost what a node costs
  std::size_t num_pairs = 0;
  const auto match = [&](const Member& g, const Member& a) {
    if (++num_pairs % kPairs == 0 && !budget_.spend()) return false;
    if (of_other_things(g.label, a.label)) return false;
    const bool both = g.number != nullptr && a.number != nullptr;
    return (both && equal(*g.number, *a.number)) || same(g.item, a.item);
  };
  std::vector<Member> sorted;
  for (std::size_t k = 0; k < y.size(); ++k) sorted.push_back(member(Side::answer, y[k], y_labels[k]));
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  // Of each the next one that is not found yet, itself at first: to pass those that are takes no time.
  std::vector<std::size_t> next(y.size() + 1);
  std::iota(next.begin(), next.end(), std::size_t{0});
  const auto not_found_from = [&next](std::size_t k) {
    while (next[k] != k) k = next[k] = next[next[k]];
    return k;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Member g = member(Side::gold, x[i], x_labels[i]);
    const auto ranges = candidates(sorted, g.place);
    bool any = false;
    for (const auto& [begin, end] : ranges) {
      for (std::size_t k = not_found_from(begin); k < end && !(any && counted); k = not_found_from(k + 1)) {
        if (match(g, sorted[k])) any = true, next[k] = k + 1;
        if (budget_.spent()) return false;
      }
    }
    for (const auto& [begin, end] : ranges) {  // one that another member is, too
      for (std::size_t k = begin; k < end && !any && !counted; ++k) any = next[k] != k && match(g, sorted[k]);
    }
    if (!any || budget_.spent()) return false;
  }
  return not_found_from(0) == y.size();
}

bool Comparer::same_proportions(const std::vector<Item>& x, const std::vector<Item>& y) {
  std::vector<Value> u, v;
  for (const Item item : x) u.push_back(value(Side::gold, item));
  for (const Item item : y) v.push_back(value(Side::answer, item));
  for (std::size_t k = 0; k < u.size(); ++k) {
    if (u[k].is_zero() != v[k].is_zero()) return false;
  }
  const auto first = std::find_if(u.begin(), u.end(), [](const Value& w) { return !w.is_zero(); });
  if (first == u.end()) return false;
  const Value& partner = v[static_cast<std::size_t>(first - u.begin())];
  for (std::size_t k = 0; k < u.size(); ++k) {
    if (!equal(algebra_.multiply(u[k], partner), algebra_.multiply(v[k], *first))) return false;
  }
  return true;
}

bool Comparer::same_cases(Item g, Item a) {
  const std::vector<Item> x = entries(Side::gold, g);
  const std::vector<Item> y = entries(Side::answer, a);
  const auto columns = static_cast<std::size_t>(at(Side::gold, g).columns);
  if (x.size() > kMaxCases * columns) return false;
  std::vector<bool> found(y.size(), false);
  for (std::size_t i = 0; i < x.size(); i += columns) {
    bool any = false;
    for (std::size_t j = 0; j < y.size() && !any; j += columns) {
      bool row = !found[j];
      for (std::size_t k = 0; row && k < columns; ++k) row = same(x[i + k], y[j + k]);
      if (row) any = found[j] = true;
    }
    if (!any) return false;
  }
  return true;
}

bool Comparer::same_matrices(Item g, Item a) {
  Algebra algebra;
  const auto matrix = [&](Side side, Item item) { return Evaluator(tree(side), algebra, budget_).matrix(item.node); };
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  if (gold.kind == Kind::matrix && answer.kind == Kind::matrix && gold.columns == answer.columns &&
      gold.count == answer.count) {
    if (gold.text == "cases" && answer.text == "cases") return same_cases(g, a);
    return in_order(entries(Side::gold, g), entries(Side::answer, a));
  }
  const auto rows = [this](Side side, Item item, Item of, Side of_side) {  // [[1, 2], [3, 4]]
    std::vector<Item> all;
    const Node& list = at(side, item);
    for (std::int32_t k = 0; k < list.count; ++k) {
      const Item row = part(side, item, k);
      const bool fits = list.kind == Kind::tuple && list.open == '[' && at(side, row).kind == Kind::tuple &&
                        at(side, row).open == '[' && at(side, row).count == at(of_side, of).columns;
      if (!fits) return std::vector<Item>();
      for (const Item entry : entries(side, row)) all.push_back(entry);
    }
    return all;
  };
  if (gold.kind == Kind::matrix && answer.kind == Kind::tuple) {
    if (const auto y = rows(Side::answer, a, g, Side::gold); !y.empty()) return in_order(entries(Side::gold, g), y);
  }
  if (gold.kind == Kind::tuple && answer.kind == Kind::matrix) {
    if (const auto x = rows(Side::gold, g, a, Side::answer); !x.empty()) return in_order(x, entries(Side::answer, a));
  }
  const auto vector_entries = [](const Node& node) {
    return node.kind == Kind::tuple || (node.kind == Kind::matrix && (node.columns == 1 || node.columns == node.count));
  };
  if (vector_entries(gold) && vector_entries(answer)) {
    // A row, a column and a tuple of the same numbers; a row and a column are different matrices.
    if (gold.kind == Kind::matrix && answer.kind == Kind::matrix) return false;
    return in_order(entries(Side::gold, g), entries(Side::answer, a));
  }
  const auto x = matrix(Side::gold, g);
  const auto y = matrix(Side::answer, a);
  if (!x || !y) return same_value(g, a);
  if (x->rows != y->rows || x->columns != y->columns) return false;
  return std::equal(x->entries.begin(), x->entries.end(), y->entries.begin(),
                    [](const Value& p, const Value& q) { return equal(p, q); });
}

bool Comparer::same_components(Item g, Item a) {
  const auto is_vector = [](const Node& node) {
    const bool point = node.kind == Kind::tuple && node.open == '(' && node.close == ')';
    const bool line = node.kind == Kind::matrix && (node.columns == 1 || node.columns == node.count);
    return (point || line) && (node.count == 2 || node.count == 3);
  };
  const bool of_gold = is_vector(at(Side::gold, g));
  if (of_gold == is_vector(at(Side::answer, a))) return false;
  const Side side = of_gold ? Side::answer : Side::gold;
  const Item sum = of_gold ? a : g;
  if (at(side, sum).kind != Kind::sum) return false;
  const std::array<NodeIdx, 3> units = unit_vectors(tree(side), sum.node);
  const std::vector<Item> components = entries(of_gold ? Side::gold : Side::answer, of_gold ? g : a);
  if (units[1] < 0 && units[2] < 0) return false;  // a complex number
  Value total = algebra_.integer(0);
  for (std::size_t k = 0; k < units.size(); ++k) {
    if (k >= components.size() && units[k] >= 0) return false;
    if (k >= components.size()) continue;
    const Value& component = value(of_gold ? Side::gold : Side::answer, components[k]);
    if (units[k] < 0 && !component.is_zero()) return false;
    if (units[k] >= 0) total = algebra_.add(total, algebra_.multiply(component, value(side, {units[k], sum.sign})));
  }
  return equal(value(side, sum), total) && !budget_.spent();
}

std::vector<Item> Comparer::entries(Side side, Item item) const {
  std::vector<Item> out;
  out.reserve(static_cast<std::size_t>(at(side, item).count));
  for (std::int32_t k = 0; k < at(side, item).count; ++k) out.push_back(part(side, item, k));
  return out;
}

bool Comparer::same_sets(Item g, Item a) {
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  if (gold.kind == answer.kind && gold.kind == Kind::set_operation && gold.count == answer.count) {
    bool unions = true;
    bool same_codes = true;
    for (std::int32_t k = 1; k < gold.count; ++k) {
      unions = unions && gold_.link(gold, k).code != 'D' && answer_.link(answer, k).code == gold_.link(gold, k).code;
      same_codes = same_codes && answer_.link(answer, k).code == gold_.link(gold, k).code;
    }
    if (unions) return as_sets(entries(Side::gold, g), entries(Side::answer, a), false);
    return same_codes && in_order(entries(Side::gold, g), entries(Side::answer, a));
  }
  return same_value(g, a);
}

bool Comparer::same_reals(Item g, Item a) {
  const Kind gold = at(Side::gold, g).kind, answer = at(Side::answer, a).kind;
  // Two points, or two sets of members that are listed: they were compared as what they are.
  if (gold == answer && (gold == Kind::tuple || gold == Kind::set)) return false;
  const auto read = [this](Side side, Item item) -> std::optional<RealSet> {
    if (item.sign == 0 && has_plus_minus(tree(side), item.node)) return std::nullopt;
    Evaluator evaluator(tree(side), algebra_, budget_, item.sign >= 0);
    return real_set(tree(side), item.node, evaluator);
  };
  const auto x = read(Side::gold, g);
  if (!x) return false;
  const auto y = read(Side::answer, a);
  return y && equal(*x, *y);
}

}  // namespace qrl::reward::math

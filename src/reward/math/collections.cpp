// Lists, tuples, sets, ratios, matrices, and sets of reals.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "reward/math/equal.h"
#include "reward/math/real_set.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxCases = 32;

std::vector<const Answer*> parts_of(const Answer& x) {
  std::vector<const Answer*> parts;
  for (const Answer& part : x.parts) parts.push_back(&part);
  return parts;
}

/// What a member counts, where it is a number with words: "apple" of 3 apples.
std::string label_of(const Answer& x, const Vocabulary& vocabulary) {
  std::string label = text_key(x.notes.words, vocabulary);
  if (label.size() > 3 && label.back() == 's') label.pop_back();
  return label;
}

/// Whether all members are inequalities or letters: "and" and "or" between them differ.
bool is_joint(const Answer& x) {
  return x.form == Form::list && x.parts.size() > 1 &&
         std::all_of(x.parts.begin(), x.parts.end(), [](const Answer& part) {
           bool ordered = part.form == Form::relation;
           for (std::size_t k = 1; ordered && k < part.parts.size(); ++k)
             ordered = std::string_view("<>lg").find(part.code(k)) != std::string_view::npos;
           return ordered || !shown_letters(part).empty();
         });
}

bool has_dots(const Answer& x) noexcept {
  return std::any_of(x.parts.begin(), x.parts.end(), [](const Answer& part) { return part.at().kind == Kind::dots; });
}

/// The letters of choices: of "A, C" and of "AC", in order.
std::string letters_of(const Answer& x) {
  std::string all = x.notes.run;
  for (const Answer& part : x.parts)
    if (part.at().kind == Kind::symbol && part.at().text.size() == 1 && part.at().text[0] <= 'Z') all += part.at().text;
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

bool Equality::same_collections(const Answer& g, const Answer& a) {
  if (is_joint(g) && is_joint(a) && g.either != a.either) return false;
  const auto is_collection = [](const Answer& x) {
    return x.form == Form::list || x.form == Form::set || x.form == Form::tuple;
  };
  if (is_collection(g) != is_collection(a)) {
    const Answer& list = is_collection(g) ? g : a;
    if (list.form == Form::list && letters_of(g).size() == list.parts.size() && letters_of(g) == letters_of(a))
      return true;
    if (list.form == Form::set && (g.form == Form::sets || a.form == Form::sets))
      return false;  // {∅} has a member, ∅ none
    if (list.form == Form::tuple) return false;
  }
  const Parts x = is_collection(g) ? parts_of(g) : Parts{&g}, y = is_collection(a) ? parts_of(a) : Parts{&a};
  if (g.form == Form::tuple && a.form == Form::tuple) {
    const Node &gold = g.at(), &answer = a.at();
    return ((gold.open == answer.open && gold.close == answer.close) || x.size() != 2) && in_order(x, y);
  }
  if (g.form == Form::tuple || a.form == Form::tuple) {
    const Answer &tuple = g.form == Form::tuple ? g : a, &other = g.form == Form::tuple ? a : g;
    if (other.form != Form::list) return false;
    const auto name_of = [](const Answer& part) {
      return part.form == Form::relation ? form_of(*part.tree, part.parts[0].node) : std::string();
    };
    // x = 3, y = 4 is (3, 4); of y = 4, x = 3 nothing is known.
    if (tuple.at().open == '(' && tuple.at().close == ')' && !other.signs && !other.either &&
        std::ranges::is_sorted(other.parts, {}, name_of) && in_order(x, y))
      return true;
    if (other.parts.size() != 1) return false;  // a list of one is its member
  }
  if (has_dots(g) || has_dots(a)) return in_order(x, y);
  // 1, 1, 2 is not 1, 2; solutions in brackets are often named twice.
  return as_sets(x, y, g.form == Form::list && a.form == Form::list && !is_collection(*x[0]));
}

bool Equality::in_order(const Parts& x, const Parts& y) {
  if (x.size() != y.size()) return false;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (!same(*x[k], *y[k])) return false;
  return true;
}

/// Where a member stands among others of its kind: those that equal it are within its reach.
struct Equality::Place {
  std::size_t num_numbers = 0;  ///< which kind: 1 a number, n + 1 a tuple of n real constants; 0 any other, nowhere
  long double at = 0, reach = 0;
  friend bool operator<(const Place& one, const Place& other) noexcept {
    return one.num_numbers != other.num_numbers ? one.num_numbers < other.num_numbers : one.at < other.at;
  }
};
struct Equality::Member {
  const Answer* answer;
  std::string label;
  const Value* number = nullptr;  ///< what it is worth; null: it is none
  Place place;
};

Equality::Place Equality::place(const Answer& of, const Value* number) {
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
  for (std::size_t k = 0; of.form == Form::tuple && k < of.parts.size(); ++k) {
    const Answer& part = of.parts[k];
    const Kind kind = part.at().kind;
    const bool constant = part.form == Form::value && part.notes.words.empty() && !has_symbols(*part.tree, part.node) &&
                          kind != Kind::percent && kind != Kind::degree && kind != Kind::ratio &&
                          modulus_of(*part.tree, part.node) < 0;
    if (of.parts.size() > std::size(kRadicands) || !constant || !value(part).real()) return {};
    add(value(part), std::sqrt(kRadicands[k]));
    place.num_numbers = k + 2;
  }
  return std::isfinite(place.at) && std::isfinite(place.reach) ? place : Place{};
}

Equality::Member Equality::member(const Answer& of) {
  constexpr Kind kNumbers[] = {Kind::number, Kind::sum, Kind::product, Kind::power, Kind::root, Kind::mixed};
  const bool number = of.form == Form::value && of.notes.words.empty() &&
                      std::find(std::begin(kNumbers), std::end(kNumbers), of.at().kind) != std::end(kNumbers);
  const Value* worth = number && !alternates(*of.tree, of.node) ? &value(of) : nullptr;
  return {&of, label_of(of, vocabulary_), worth, place(of, worth)};
}

namespace {

/// Those of `sorted`, in the order of their places, that may equal one at `place`: those of its kind within its reach,
/// then those of other kinds. [begin, end) each.
template <class Place, class Member>
std::array<std::pair<std::size_t, std::size_t>, 3> candidates(const std::vector<Member>& sorted, const Place& place) {
  if (place.num_numbers == 0) return {{{0, sorted.size()}, {0, 0}, {0, 0}}};
  const auto first_from = [&](long double at) {
    const auto before = [](const Member& member, const Place& bound) { return member.place < bound; };
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), Place{place.num_numbers, at, 0}, before);
    return static_cast<std::size_t>(found - sorted.begin());
  };
  constexpr long double kAll = std::numeric_limits<long double>::infinity();
  return {{{first_from(place.at - place.reach), first_from(place.at + place.reach)},
           {0, first_from(-kAll)},
           {first_from(kAll), sorted.size()}}};
}

}  // namespace

/// Every member of each is one of the other; `counted`: as often. Numbers and points are sought by their size, so that
/// their order costs nothing; others are compared each with each.
bool Equality::as_sets(const Parts& x, const Parts& y, bool counted) {
  const std::size_t most = std::max(x.size(), y.size());
  if ((counted && x.size() != y.size()) || most > 2 * std::min(x.size(), y.size()) + 2) return false;
  std::vector<Member> of_gold, sorted;
  for (const Answer* each : x) of_gold.push_back(member(*each));
  for (const Answer* each : y) sorted.push_back(member(*each));
  const auto has = [](const std::vector<Member>& members, const std::string& label) {
    return std::any_of(members.begin(), members.end(), [&](const Member& m) { return m.label == label; });
  };
  std::size_t num_pairs = 0;  // two cost what a node costs
  const auto match = [&](const Member& g, const Member& a) {
    if (++num_pairs % 2 == 0 && !budget_.spend()) return false;
    // 3 apples are not 3 pears where the other side has apples, too.
    if (!g.label.empty() && !a.label.empty() && g.label != a.label && (has(sorted, g.label) || has(of_gold, a.label)))
      return false;
    const bool both = g.number != nullptr && a.number != nullptr;
    return (both && equal(*g.number, *a.number)) || same(*g.answer, *a.answer);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  // Of each the next one that is not found yet, itself at first: to pass those that are takes no time.
  std::vector<std::size_t> next(y.size() + 1);
  std::iota(next.begin(), next.end(), std::size_t{0});
  const auto not_found_from = [&next](std::size_t k) {
    while (next[k] != k) k = next[k] = next[next[k]];
    return k;
  };
  for (const Member& g : of_gold) {
    const auto ranges = candidates(sorted, g.place);
    bool any = false;
    for (const auto& [begin, end] : ranges) {
      for (std::size_t k = not_found_from(begin); k < end && !(any && counted); k = not_found_from(k + 1)) {
        if (match(g, sorted[k])) any = true, next[k] = k + 1;
        if (budget_.spent()) return false;
      }
    }
    for (const auto& [begin, end] : ranges)  // one that another member is, too
      for (std::size_t k = begin; k < end && !any && !counted; ++k) any = next[k] != k && match(g, sorted[k]);
    if (!any || budget_.spent()) return false;
  }
  return not_found_from(0) == y.size();
}

/// a : b : c up to a common factor.
bool Equality::same_proportions(const Answer& g, const Answer& a) {
  std::vector<Value> u, v;
  for (std::int32_t k = 0; k < g.at().count; ++k) {
    u.push_back(Evaluator(*g.tree, algebra_, budget_).value(g.tree->child(g.at(), k)));
    v.push_back(Evaluator(*a.tree, algebra_, budget_).value(a.tree->child(a.at(), k)));
    if (u.back().is_zero() != v.back().is_zero()) return false;
  }
  const auto first = std::find_if(u.begin(), u.end(), [](const Value& w) { return !w.is_zero(); });
  if (first == u.end()) return false;
  const Value& partner = v[static_cast<std::size_t>(first - u.begin())];
  for (std::size_t k = 0; k < u.size(); ++k)
    if (!equal(algebra_.multiply(u[k], partner), algebra_.multiply(v[k], *first))) return false;
  return true;
}

/// Values with conditions, in any order.
bool Equality::same_cases(const Answer& g, const Answer& a) {
  const auto columns = static_cast<std::size_t>(g.at().columns);
  if (a.at().columns != g.at().columns || a.parts.size() != g.parts.size() || g.parts.size() > kMaxCases * columns)
    return false;
  std::vector<bool> found(a.parts.size(), false);
  for (std::size_t i = 0; i < g.parts.size(); i += columns) {
    bool any = false;
    for (std::size_t j = 0; j < a.parts.size() && !any; j += columns) {
      bool row = !found[j];
      for (std::size_t k = 0; row && k < columns; ++k) row = same(g.parts[i + k], a.parts[j + k]);
      if (row) any = found[j] = true;
    }
    if (!any) return false;
  }
  return true;
}

bool Equality::same_matrices(const Answer& g, const Answer& a) {
  if (g.form == Form::cases && a.form == Form::cases) return same_cases(g, a);
  if (g.form == Form::cases || a.form == Form::cases) return false;
  const Node &gold = g.at(), &answer = a.at();
  const bool matrices = gold.kind == Kind::matrix && answer.kind == Kind::matrix;
  if (matrices && gold.columns == answer.columns && gold.count == answer.count)
    return in_order(parts_of(g), parts_of(a));
  // [[1, 2], [3, 4]]; a row, a column and a tuple of the same numbers, but a row and a column are different matrices.
  const auto rows = [](const Answer& x, std::int32_t columns) {
    Parts all;
    for (const Answer& row : x.parts) {
      if (x.at().open != '[' || row.form != Form::tuple || row.at().open != '[' || row.at().count != columns)
        return Parts();
      for (const Answer& entry : row.parts) all.push_back(&entry);
    }
    return all;
  };
  const auto is_vector = [](const Node& node) {
    return node.kind == Kind::matrix && (node.columns == 1 || node.columns == node.count);
  };
  const auto against_tuple = [&](const Answer& tuple, const Answer& matrix, const auto& compare) {
    if (const Parts entries = rows(tuple, matrix.at().columns); !entries.empty())
      return compare(entries, parts_of(matrix));
    return is_vector(matrix.at()) && compare(parts_of(tuple), parts_of(matrix));
  };
  if (gold.kind == Kind::tuple && answer.kind == Kind::matrix)
    return against_tuple(g, a, [this](const Parts& x, const Parts& y) { return in_order(x, y); });
  if (answer.kind == Kind::tuple && gold.kind == Kind::matrix)
    return against_tuple(a, g, [this](const Parts& y, const Parts& x) { return in_order(x, y); });
  if (matrices && is_vector(gold) && is_vector(answer)) return false;
  Algebra algebra;
  const auto x = Evaluator(*g.tree, algebra, budget_).matrix(g.node),
             y = Evaluator(*a.tree, algebra, budget_).matrix(a.node);
  if (!x || !y) return g.form == a.form && g.form == Form::matrix && same_value(g, a);
  return x->rows == y->rows && x->columns == y->columns &&
         std::equal(x->entries.begin(), x->entries.end(), y->entries.begin(),
                    [](const Value& p, const Value& q) { return equal(p, q); });
}

/// Unions and differences part by part: for what is no set of real constants.
bool Equality::same_sets(const Answer& g, const Answer& a) {
  const Node &gold = g.at(), &answer = a.at();
  if (gold.kind != Kind::set_operation || answer.kind != Kind::set_operation || gold.count != answer.count)
    return same_value(g, a);
  bool unions = true, same_codes = true;
  for (std::int32_t k = 1; k < gold.count; ++k) {
    const char code = g.tree->link(gold, k).code;
    same_codes = same_codes && a.tree->link(answer, k).code == code;
    unions = unions && code != 'D';
  }
  std::vector<Answer> x, y;
  for (std::int32_t k = 0; k < gold.count; ++k) {
    for (const auto& [of, parts] : {std::pair{&g, &x}, std::pair{&a, &y}}) {
      Answer part;
      part.tree = of->tree;
      part.node = of->tree->child(of->at(), k);
      parts->push_back(std::move(part));
    }
  }
  Parts u, v;
  for (std::size_t k = 0; k < x.size(); ++k) u.push_back(&x[k]), v.push_back(&y[k]);
  return same_codes && (unions ? as_sets(u, v, false) : in_order(u, v));
}

bool Equality::same_reals(const Answer& g, const Answer& a) {
  // Two points, or two sets of members that are listed: they were compared as what they are.
  if (g.form == a.form && (g.form == Form::tuple || g.form == Form::set)) return false;
  const auto read = [this](const Answer& x) -> std::optional<RealSet> {
    if (x.sign == 0 && has_plus_minus(*x.tree, x.node)) return std::nullopt;
    Evaluator evaluator(*x.tree, algebra_, budget_, x.sign >= 0);
    return real_set(*x.tree, x.node, evaluator);
  };
  const auto x = read(g);
  const auto y = x ? read(a) : std::nullopt;
  if (!y || !equal(*x, *y)) return false;
  // x < 2 is not y < 2.
  return g.form != Form::relation || a.form != Form::relation ||
         variables_of(*g.tree, g.node) == variables_of(*a.tree, a.node) || (g.code(1) == 'e' && a.code(1) == 'e');
}

}  // namespace qrl::reward::math

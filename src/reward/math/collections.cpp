// Lists, tuples, sets, ratios, matrices, and sets of reals.
#include <algorithm>
#include <cmath>

#include "reward/math/equal.h"
#include "reward/math/real_set.h"

namespace qrl::reward::math {

namespace {

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
           for (std::size_t k = 1; ordered && k < part.parts.size(); ++k) ordered = is_order(part.code(k));
           return ordered || !shown_letters(part).empty();
         });
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
      return part.form == Form::relation ? form_of(part.parts[0].at()) : std::string();
    };
    // x = 3, y = 4 is (3, 4); of y = 4, x = 3 nothing is known.
    if (tuple.at().open == '(' && tuple.at().close == ')' && !other.signs && !other.either &&
        std::ranges::is_sorted(other.parts, {}, name_of) && in_order(x, y))
      return true;
    if (other.parts.size() != 1) return false;  // a list of one is its member
  }
  // 1, 1, 2 is not 1, 2; solutions in brackets are often named twice.
  return as_sets(x, y, g.form == Form::list && a.form == Form::list && !is_collection(*x[0]));
}

bool Equality::in_order(const Parts& x, const Parts& y) {
  if (x.size() != y.size()) return false;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (!same(*x[k], *y[k])) return false;
  return true;
}

/// The same for members that are equal numbers or points of such; 0 of any other.
std::uint64_t Equality::image(const Answer& of) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t all = 1;
  if (of.form == Form::tuple) {
    for (const Answer& part : of.parts) {
      const std::uint64_t one = image(part);
      if (one == 0) return 0;
      all = (all ^ one) * kOdd;
    }
    return all;
  }
  if (of.form != Form::value || !of.notes.words.empty() || of.notes.run.size() > 2) return 0;
  for (const std::size_t lane : {0, 1}) {
    const auto& one = value(of, lane).image;
    if (!one) return 0;
    all = (all ^ *one) * kOdd;
  }
  return all;
}

struct Equality::Member {
  const Answer* answer;
  std::string label;
  std::uint64_t image;
  bool found = false;
};

std::vector<Equality::Member> Equality::members(const Parts& of, bool counted) {
  std::vector<Member> all;
  for (const Answer* each : of) all.push_back({each, label_of(*each, vocabulary_), image(*each)});
  std::ranges::stable_sort(all, {}, &Member::image);
  const auto twice = [](const Member& one, const Member& other) { return one.image != 0 && one.image == other.image; };
  if (!counted) all.erase(std::unique(all.begin(), all.end(), twice), all.end());
  return all;
}

/// Every member of each is one of the other; `counted`: as often. Those of one image are found first, so that their
/// order costs nothing; the rest are compared each with each.
bool Equality::as_sets(const Parts& x, const Parts& y, bool counted) {
  const std::size_t most = std::max(x.size(), y.size());
  if ((counted && x.size() != y.size()) || most > 2 * std::min(x.size(), y.size()) + 2) return false;
  std::vector<Member> gold = members(x, counted), answer = members(y, counted);
  for (auto g = gold.begin(), a = answer.begin(); g != gold.end() && a != answer.end();) {
    const std::uint64_t of_gold = g->image, of_answer = a->image;
    if (of_gold == of_answer) g->found = a->found = of_gold != 0;
    if (of_gold <= of_answer) ++g;
    if (of_answer <= of_gold) ++a;
  }
  const auto has = [](const std::vector<Member>& members, const std::string& label) {
    return std::ranges::find(members, label, &Member::label) != members.end();
  };
  const auto all_found = [&](std::vector<Member>& members, std::vector<Member>& others) {
    for (Member& m : members) {
      for (Member& other : others) {
        if (m.found) break;
        if (counted && other.found) continue;
        if (!budget_.spend()) return false;
        // 3 apples are not 3 pears where the other side has apples, too.
        const bool apart = !m.label.empty() && !other.label.empty() && m.label != other.label &&
                           (has(others, m.label) || has(members, other.label));
        const bool first = &members == &gold;
        if (!apart && same(*(first ? m : other).answer, *(first ? other : m).answer)) m.found = other.found = true;
      }
      if (!m.found) return false;
    }
    return true;
  };
  return all_found(gold, answer) && all_found(answer, gold);
}

bool Equality::same_matrices(const Answer& g, const Answer& a) {
  const Node &gold = g.at(), &answer = a.at();
  if (gold.kind == Kind::matrix && answer.kind == Kind::matrix)
    return gold.columns == answer.columns && in_order(parts_of(g), parts_of(a));
  // [[1, 2], [3, 4]], and a tuple of the numbers of a row or column.
  const Answer &matrix = gold.kind == Kind::matrix ? g : a, &tuple = gold.kind == Kind::matrix ? a : g;
  if (tuple.form != Form::tuple) {
    const auto x = evaluator(g).matrix(g.at()), y = evaluator(a).matrix(a.at());
    return x && y && x->columns == y->columns &&
           std::ranges::equal(x->entries, y->entries, [](const Value& p, const Value& q) { return equal(p, q); });
  }
  const auto entries_of = [](const Answer& x) {
    Parts all;
    for (const Answer& row : x.parts) {
      if (row.form != Form::tuple) all.push_back(&row);
      for (const Answer& entry : row.parts) all.push_back(&entry);
    }
    return all;
  };
  const auto columns = static_cast<std::size_t>(matrix.at().columns), count = matrix.parts.size();
  const bool rows = std::ranges::all_of(
      tuple.parts, [&](const Answer& row) { return row.form == Form::tuple && row.parts.size() == columns; });
  if (!rows && columns != 1 && columns != count) return false;
  return &tuple == &g ? in_order(entries_of(g), parts_of(a)) : in_order(parts_of(g), entries_of(a));
}

/// Unions and differences part by part: for what is no set of real constants.
bool Equality::same_sets(const Answer& g, const Answer& a) {
  if (g.at().kind != Kind::set_operation || a.at().kind != Kind::set_operation || g.parts.size() != a.parts.size())
    return same_value(g, a);
  bool ordered = false;
  for (std::size_t k = 1; k < g.parts.size(); ++k) {
    if (g.code(k) != a.code(k)) return false;
    ordered = ordered || g.code(k) == 'D';
  }
  return ordered ? in_order(parts_of(g), parts_of(a)) : as_sets(parts_of(g), parts_of(a), false);
}

bool Equality::same_reals(const Answer& g, const Answer& a) {
  const auto read = [this](const Answer& x) -> std::optional<RealSet> {
    if (x.sign == 0 && has_plus_minus(x.at())) return std::nullopt;
    return real_set(x.at(), evaluator(x));
  };
  const auto x = read(g);
  const auto y = x ? read(a) : std::nullopt;
  if (!y || !equal(*x, *y)) return false;
  // x < 2 is not y < 2.
  return g.form != Form::relation || a.form != Form::relation || variables_of(g.at()) == variables_of(a.at()) ||
         (g.code(1) == 'e' && a.code(1) == 'e');
}

}  // namespace qrl::reward::math

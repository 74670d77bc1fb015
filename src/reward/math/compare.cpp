#include "reward/math/compare.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "reward/math/forms.h"
#include "reward/math/reals.h"
#include "reward/math/texts.h"
#include "reward/math/units.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxSignChoices = 32;
constexpr std::int32_t kMaxList = 1000;

/// A node on one side, and which sign its ± stands for: 0 both, as a list of two.
struct Item {
  NodeIdx node = -1;
  int sign = 0;
};

class Comparer {
 public:
  Comparer(const Tree& gold, const Tree& answer) noexcept : gold_(gold), answer_(answer) {}

  bool run() { return same({gold_.root, 0}, {answer_.root, 0}); }
  bool out_of_budget() const noexcept { return budget_.spent(); }

 private:
  enum class Side : bool { gold, answer };
  const Tree& tree(Side side) const noexcept { return side == Side::gold ? gold_ : answer_; }
  const Node& at(Side side, Item item) const noexcept { return tree(side).at(item.node); }
  Item part(Side side, Item item, std::int32_t k) const noexcept {
    return {tree(side).child(at(side, item), k), item.sign};
  }

  // ---- values

  Value value(Side side, Item item, Algebra& algebra) {
    return Evaluator(tree(side), algebra, budget_, item.sign >= 0).value(item.node);
  }
  /// With no root turned around; each is computed once.
  const Value& value(Side side, Item item) {
    const std::uint64_t key =
        static_cast<std::uint64_t>(item.node) * 8 + (item.sign >= 0 ? 2 : 0) + (side == Side::gold ? 1 : 0);
    const auto at = std::find(keys_.begin(), keys_.end(), key);
    if (at != keys_.end()) return values_[static_cast<std::size_t>(at - keys_.begin())];
    keys_.push_back(key);
    return values_.emplace_back(value(side, item, algebra_));
  }

  /// Equal under some choice of signs of ambiguous roots, in every lane.
  bool same_value(Item g, Item a) {
    const Value& first = value(Side::gold, g);
    const Value& second = value(Side::answer, a);
    if (budget_.spent()) return false;
    if (equal(first, second)) return true;
    if (first.undefined || second.undefined || (first.exact && second.exact) || !near(first, second)) {
      return rounds(g, a, first, second);
    }
    unsigned lanes = 0;
    std::size_t choices = 1;
    for (std::size_t signs = 0; signs < choices; ++signs) {
      Algebra algebra(static_cast<std::uint32_t>(signs));
      const Value x = value(Side::gold, g, algebra);
      const Value y = value(Side::answer, a, algebra);
      if (budget_.spent()) return false;
      unsigned agree = 0;
      if (equal(x, y, &agree)) return true;
      lanes |= agree;
      if (lanes == (1u << kLanes) - 1) return true;
      if (x.undefined || y.undefined || !near(x, y)) return rounds(g, a, x, y);
      const std::size_t roots = algebra.num_ambiguous_roots();
      choices = std::min(kMaxSignChoices, std::size_t{1} << std::min<std::size_t>(roots, 10));
    }
    return rounds(g, a, first, second);
  }

  /// A decimal written with six places or more that the other side, which is none, rounds or is cut off to.
  bool rounds(Item g, Item a, const Value& x, const Value& y) const {
    const auto places = [this](Side side, Item item) -> std::size_t {
      const Node* node = &at(side, item);
      if (node->kind == Kind::sum && node->count == 1) node = &tree(side).child_at(*node, 0);
      if (node->kind != Kind::number || node->text.find('e') != std::string_view::npos) return 0;
      const std::size_t point = node->text.find('.');
      if (point == std::string_view::npos) return 0;
      const std::size_t first = node->text.find_first_not_of("0.");
      const bool short_one = first == std::string_view::npos || node->text.size() - first < 5;
      return short_one ? 0 : node->text.size() - point - 1;
    };
    const std::size_t of_gold = places(Side::gold, g);
    const std::size_t of_answer = places(Side::answer, a);
    if ((of_gold > 0) == (of_answer > 0)) return false;
    const std::size_t digits = std::max(of_gold, of_answer);
    const auto p = x.real();
    const auto q = y.real();
    return digits >= 6 && p && q && std::abs(*p - *q) <= std::pow(10.0L, -static_cast<long double>(digits)) * 1.0001L;
  }

  // ---- the kinds of answers

  bool same(Item g, Item a) {
    if (!budget_.spend() || ++depth_ > kMaxTreeDepth) return false;
    const bool result = same_form(g, a);
    --depth_;
    return result;
  }

  bool same_form(Item g, Item a) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.kind == Kind::words || answer.kind == Kind::words) return same_words(g, a);
    const bool gold_relation = gold.kind == Kind::relation;
    const bool answer_relation = answer.kind == Kind::relation;
    if (gold_relation && answer_relation) {
      return same_relations(g, a) || (same_symbols(gold_, g.node, answer_, a.node) && same_reals(g, a));
    }
    if (gold_relation) return is_value_of(Side::gold, g, a) || same_reals(g, a);
    if (answer_relation) return is_value_of(Side::answer, a, g) || same_reals(g, a);
    if (is_both_signs(Side::gold, g) || is_both_signs(Side::answer, a)) return same_collections(g, a);
    if (gold.kind == Kind::ratio && answer.kind == Kind::ratio && gold.count == answer.count && gold.count > 2) {
      return same_proportions(entries(Side::gold, g), entries(Side::answer, a));
    }
    if (is_matrix(gold_, g.node) || is_matrix(answer_, a.node)) return same_matrices(g, a);
    if (is_collection(gold) || is_collection(answer)) return same_collections(g, a) || same_reals(g, a);
    if (is_set_like(gold) || is_set_like(answer)) return same_sets(g, a) || same_reals(g, a);
    return same_quantities(g, a);
  }

  bool is_both_signs(Side side, Item item) const {
    const Node& node = at(side, item);
    return item.sign == 0 && !is_collection(node) && has_plus_minus(tree(side), item.node);
  }
  /// "(E)" and E, Yes and "Yes, it does": by the letters that are shown.
  bool same_words(Item g, Item a) {
    const auto key = [this](Side side, Item item) {
      const Node* node = &at(side, item);
      if (node->kind == Kind::quantity) return std::string();
      return node->kind == Kind::words || node->kind == Kind::symbol ? text_key(node->text) : std::string();
    };
    const std::string of_gold = key(Side::gold, g);
    const std::string of_answer = key(Side::answer, a);
    return !of_gold.empty() && of_gold == of_answer;
  }

  // ---- relations

  static bool is_equality(char code) noexcept { return code == '=' || code == 'a' || code == 'c'; }

  /// x = 5 is 5, x ∈ S is S, 2 + 3 = 5 is 5: whether what a relation says of its left side is `other`.
  bool is_value_of(Side side, Item relation, Item other) {
    const Node& node = at(side, relation);
    const auto compare = [&](Item value) { return side == Side::gold ? same(value, other) : same(other, value); };
    const char last_code = tree(side).link(node, node.count - 1).code;
    if (node.count == 2 && last_code == 'e') return compare(part(side, relation, 1));
    for (std::int32_t k = 1; k < node.count; ++k) {
      if (!is_equality(tree(side).link(node, k).code)) return false;
    }
    // What stands before an ≈ is the answer, what follows it illustrates.
    std::int32_t last = node.count - 1;
    while (last > 0 && tree(side).link(node, last).code == 'a') --last;
    const NodeIdx first = tree(side).child(node, 0);
    if (has_symbols(tree(side), first)) {
      if (!is_name(tree(side), first) || last == 0) return false;
      return compare(part(side, relation, last));
    }
    return compare(part(side, relation, last)) || (is_consistent(side, relation) && compare(part(side, relation, 0)));
  }

  /// Constants said to be equal, and within a hundredth of each other: 5/6 = 0.833. Others name their last one only, so
  /// that two different answers are not two guesses.
  bool is_consistent(Side side, Item relation) {
    const Node& node = at(side, relation);
    const Value first = value(side, part(side, relation, 0));
    for (std::int32_t k = 1; k < node.count; ++k) {
      const Value& other = value(side, part(side, relation, k));
      if (equal(first, other)) continue;
      const auto x = first.real();
      const auto y = other.real();
      if (!x || !y || std::abs(*x - *y) > 0.01L * std::max(std::abs(*x), std::abs(*y))) return false;
    }
    return true;
  }

  /// The relation that it is when read from right to left.
  static char reversed(char code) noexcept {
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

  bool same_relations(Item g, Item a) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.count == 2 && answer.count == 2) {
      const char x = gold_.link(gold, 1).code;
      const char y = answer_.link(answer, 1).code;
      if (is_equality(x) && is_equality(y)) return same_equations(g, a);
      if (same_pair(g, a, x == y, false)) return true;
      if (x == 'e' && y == 'e') return same(part(Side::gold, g, 1), part(Side::answer, a, 1));
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
  bool all_equalities(Side side, const Node& node) const noexcept {
    for (std::int32_t k = 1; k < node.count; ++k) {
      if (!is_equality(tree(side).link(node, k).code)) return false;
    }
    return true;
  }

  /// Both sides of two relations alike, in order or swapped.
  bool same_pair(Item g, Item a, bool allowed, bool swapped) {
    return allowed && same(part(Side::gold, g, 0), part(Side::answer, a, swapped ? 1 : 0)) &&
           same(part(Side::gold, g, 1), part(Side::answer, a, swapped ? 0 : 1));
  }

  bool same_equations(Item g, Item a) {
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
    const bool renamed = (is_function_of_variable(Side::gold, left) && is_graph(Side::answer, other)) ||
                         (is_graph(Side::gold, left) && is_function_of_variable(Side::answer, other));
    if (renamed && same(part(Side::gold, g, 1), part(Side::answer, a, 1))) return true;
    return proportion(g, a) != 0;
  }

  /// The sign of the constant by which left minus right of one is that of the other; 0 when there is none.
  int proportion(Item g, Item a) {
    if (!has_symbols(gold_, g.node) || !has_symbols(answer_, a.node)) return 0;
    const auto difference_of = [&](Side side, Item relation) {
      const Value left = value(side, part(side, relation, 0));
      return algebra_.subtract(left, value(side, part(side, relation, 1)));
    };
    const Value x = difference_of(Side::gold, g);
    const Value y = difference_of(Side::answer, a);
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

  /// a < b < c and c > b > a.
  bool same_chains(Item g, Item a) {
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

  // ---- collections

  /// The members of a list, tuple or set; of ± both values; of anything else itself.
  std::vector<Item> members(Side side, Item item) const {
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
  bool has_dots(Side side, Item item) const noexcept {
    const Node& node = at(side, item);
    for (std::int32_t k = 0; k < node.count; ++k) {
      if (tree(side).child_at(node, k).kind == Kind::dots) return true;
    }
    return false;
  }

  bool same_collections(Item g, Item a) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.count > kMaxList || answer.count > kMaxList) return false;
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
      if (other.kind == Kind::list) {
        if (tuple.open == '(' && tuple.close == ')' && in_order(x, y)) return true;
        if (gold_tuple ? y.size() != 1 : x.size() != 1) return false;  // p = 5, q = 2: a list of one is its member
      }
      if (other.kind != Kind::list || other.count != 1) return false;
    }
    if (has_dots(Side::gold, g) || has_dots(Side::answer, a)) return in_order(x, y);
    return as_sets(x, y);
  }

  bool in_order(const std::vector<Item>& x, const std::vector<Item>& y) {
    if (x.size() != y.size()) return false;
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!same(x[k], y[k])) return false;
    }
    return true;
  }

  /// Every member of each is one of the other. Approximations are asked first: most pairs differ.
  bool as_sets(const std::vector<Item>& x, const std::vector<Item>& y) {
    const std::size_t most = std::max(x.size(), y.size());
    if (most > 2 * std::min(x.size(), y.size()) + 2) return false;
    const auto values = [&](Side side, const std::vector<Item>& items) {
      std::vector<std::optional<Value>> out;
      for (const Item item : items) {
        const Kind kind = at(side, item).kind;
        const bool number = kind == Kind::number || kind == Kind::sum || kind == Kind::product || kind == Kind::power ||
                            kind == Kind::root || kind == Kind::mixed;
        out.push_back(number ? std::optional(value(side, item)) : std::nullopt);
      }
      return out;
    };
    const auto of_x = values(Side::gold, x);
    const auto of_y = values(Side::answer, y);
    std::vector<bool> found(y.size(), false);
    for (std::size_t i = 0; i < x.size(); ++i) {
      bool any = false;
      for (std::size_t j = 0; j < y.size(); ++j) {
        if (any && found[j]) continue;
        const bool both = of_x[i] && of_y[j];
        if (both && (of_x[i]->exact && of_y[j]->exact ? !equal(*of_x[i], *of_y[j]) : !near(*of_x[i], *of_y[j])))
          continue;
        if (!(both && equal(*of_x[i], *of_y[j])) && !same(x[i], y[j])) continue;
        any = found[j] = true;
      }
      if (!any || budget_.spent()) return false;
    }
    return std::all_of(found.begin(), found.end(), [](bool f) { return f; });
  }

  /// a : b : c up to a common factor.
  bool same_proportions(const std::vector<Item>& x, const std::vector<Item>& y) {
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

  bool same_matrices(Item g, Item a) {
    Algebra algebra;
    const auto matrix = [&](Side side, Item item) { return Evaluator(tree(side), algebra, budget_).matrix(item.node); };
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.kind == Kind::matrix && answer.kind == Kind::matrix && gold.columns == answer.columns &&
        gold.count == answer.count) {
      return in_order(entries(Side::gold, g), entries(Side::answer, a));
    }
    const auto vector_entries = [](const Node& node) {
      return node.kind == Kind::tuple ||
             (node.kind == Kind::matrix && (node.columns == 1 || node.columns == node.count));
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
  std::vector<Item> entries(Side side, Item item) const {
    std::vector<Item> out;
    for (std::int32_t k = 0; k < at(side, item).count; ++k) out.push_back(part(side, item, k));
    return out;
  }

  // ---- sets of reals

  /// Unions and differences part by part: for what is no set of real constants.
  bool same_sets(Item g, Item a) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.kind == answer.kind && gold.kind == Kind::set_operation && gold.count == answer.count) {
      bool unions = true;
      bool same_codes = true;
      for (std::int32_t k = 1; k < gold.count; ++k) {
        unions = unions && gold_.link(gold, k).code != 'D' && answer_.link(answer, k).code == gold_.link(gold, k).code;
        same_codes = same_codes && answer_.link(answer, k).code == gold_.link(gold, k).code;
      }
      if (unions) return as_sets(entries(Side::gold, g), entries(Side::answer, a));
      return same_codes && in_order(entries(Side::gold, g), entries(Side::answer, a));
    }
    return same_value(g, a);
  }

  bool same_reals(Item g, Item a) {
    const auto two_tuples = [](const Node& x, const Node& y) { return x.kind == Kind::tuple && y.kind == Kind::tuple; };
    if (two_tuples(at(Side::gold, g), at(Side::answer, a))) return false;
    const auto read = [this](Side side, Item item) {
      Evaluator evaluator(tree(side), algebra_, budget_, item.sign >= 0);
      return real_set(tree(side), item.node, evaluator);
    };
    const auto x = read(Side::gold, g);
    if (!x) return false;
    const auto y = read(Side::answer, a);
    return y && equal(*x, *y);
  }

  // ---- numbers with units, percent, degrees

  bool is_plain_number(Side side, Item item) const noexcept {
    const Node* node = &at(side, item);
    if (node->kind == Kind::sum && node->count == 1) node = &tree(side).child_at(*node, 0);
    return node->kind == Kind::number;
  }

  bool same_quantities(Item g, Item a) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    if (gold.kind == Kind::quantity || answer.kind == Kind::quantity) return same_units(g, a);
    if (same_value(g, a)) return true;
    const bool gold_marked = gold.kind == Kind::percent || gold.kind == Kind::degree;
    const bool answer_marked = answer.kind == Kind::percent || answer.kind == Kind::degree;
    if (gold_marked == answer_marked) return false;
    const Item marked = gold_marked ? g : a;
    const Side side = gold_marked ? Side::gold : Side::answer;
    const Item inner = part(side, marked, 0);
    if (at(side, marked).kind == Kind::percent) {  // 20 for 20 %, both as plain numbers
      const Item bare = gold_marked ? a : g;
      const Side other = gold_marked ? Side::answer : Side::gold;
      if (!is_plain_number(side, inner) || !is_plain_number(other, bare)) return false;
    }
    return gold_marked ? same(inner, a) : same(g, inner);
  }

  bool same_units(Item g, Item a) {
    const auto inner = [this](Side side, Item item) {
      return at(side, item).kind == Kind::quantity ? part(side, item, 0) : item;
    };
    const auto unit = [this](Side side, Item item) {
      return at(side, item).kind == Kind::quantity ? measure(at(side, part(side, item, 1)).text) : Measure{};
    };
    const Item x = inner(Side::gold, g);
    const Item y = inner(Side::answer, a);
    const Measure p = unit(Side::gold, g);
    const Measure q = unit(Side::answer, a);
    if (!p.known || !q.known || (p.dimensions == q.dimensions && p.factor == q.factor)) return same(x, y);
    if (p.dimensions != q.dimensions) return false;
    const auto u = value(Side::gold, x).real();
    const auto v = value(Side::answer, y).real();
    return u && v && std::abs(*u * p.factor - *v * q.factor) <= 1e-9L * std::abs(*u * p.factor);
  }

  const Tree& gold_;
  const Tree& answer_;
  Budget budget_;
  Algebra algebra_;                  ///< with no root turned around
  std::vector<std::uint64_t> keys_;  ///< of values_
  std::deque<Value> values_;
  int depth_ = 0;
};

}  // namespace

Comparison compare(std::string_view gold, std::string_view answer) {
  if (gold.size() > kMaxAnswer_bytes || answer.size() > kMaxAnswer_bytes) return Comparison::unreadable;
  if (same_text(gold, answer) && parse(gold, Comma::thousands).root >= 0) return Comparison::equal;
  constexpr Comma kReadings[] = {Comma::thousands, Comma::separator, Comma::decimal};
  bool read = false, spent = false;
  // 2,74 is 2.74 where it stands alone and the other side is a decimal; (4,5) is no number.
  const auto may_be_decimal = [](std::string_view text, std::string_view other) {
    return text.find_first_of("([{") == std::string_view::npos && std::count(text.begin(), text.end(), ',') == 1 &&
           other.find('.') != std::string_view::npos;
  };
  for (const Comma of_gold : kReadings) {
    if (of_gold == Comma::decimal && !may_be_decimal(gold, answer)) continue;
    const Tree g = parse(gold, of_gold);
    if (g.root >= 0) {
      for (const Comma of_answer : kReadings) {
        if (of_answer == Comma::decimal && !may_be_decimal(answer, gold)) continue;
        const Tree a = parse(answer, of_answer);
        if (a.root >= 0) {
          read = true;
          Comparer comparer(g, a);
          if (comparer.run() && !comparer.out_of_budget()) return Comparison::equal;
          spent = spent || comparer.out_of_budget();
        }
        if (!a.tokens.ambiguous_comma) break;
      }
    }
    if (!g.tokens.ambiguous_comma) break;
  }
  if (spent) return Comparison::out_of_budget;
  const std::string key = text_key(gold);
  const Tree g = parse(gold, Comma::thousands);
  const bool gold_is_text = g.root < 0 || g.at(g.root).kind == Kind::words;
  const bool letters = std::any_of(gold.begin(), gold.end(), [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; });
  if (gold_is_text && letters && !key.empty() && key == text_key(answer)) return Comparison::equal;
  if (letters && begins_with_verdict(key, answer)) return Comparison::equal;
  return read ? Comparison::different : Comparison::unreadable;
}

bool is_readable(std::string_view gold) {
  return !gold.empty() && (parse(gold, Comma::thousands).root >= 0 || gold_fault(gold).empty());
}

std::string gold_fault(std::string_view gold) {
  if (gold.size() > kMaxAnswer_bytes) return "longer than " + std::to_string(kMaxAnswer_bytes) + " bytes";
  const std::string key = text_key(gold);
  const Tree tree = parse(gold, Comma::thousands);
  if (tree.root >= 0) {
    Comparer comparer(tree, tree);
    const bool itself = comparer.run() || tree.at(tree.root).kind == Kind::words;
    return itself ? "" : "no value, such as a division by zero";
  }
  const std::string fault = tree.tokens.fault.empty() ? std::string(tree.fault) : tree.tokens.fault;
  if (gold.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Words that are no formula are an answer as a text; half a formula is not.
  const bool formula =
      gold.find('\\') != std::string_view::npos || key.find_first_of("0123456789") != std::string::npos;
  if (!formula && key.size() > 1) return "";
  return fault;
}

}  // namespace qrl::reward::math

#include "reward/math/comparer.h"

#include <algorithm>
#include <cmath>

#include "reward/math/forms.h"
#include "reward/math/texts.h"
#include "reward/math/units.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxSignChoices = 32;

}  // namespace

Value Comparer::value(Side side, Item item, Algebra& algebra) {
  return Evaluator(tree(side), algebra, budget_, item.sign >= 0).value(item.node);
}

const Value& Comparer::value(Side side, Item item) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(item.node) * 8 + (item.sign >= 0 ? 2 : 0) + (side == Side::gold ? 1 : 0);
  const auto at = std::find(keys_.begin(), keys_.end(), key);
  if (at != keys_.end()) return values_[static_cast<std::size_t>(at - keys_.begin())];
  keys_.push_back(key);
  return values_.emplace_back(value(side, item, algebra_));
}

bool Comparer::same_value(Item g, Item a) {
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

bool Comparer::rounds(Item g, Item a, const Value& x, const Value& y) const {
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

bool Comparer::same(Item g, Item a) {
  if (!budget_.spend() || ++depth_ > kMaxTreeDepth) return false;
  const bool result = same_form(g, a);
  --depth_;
  return result;
}

bool Comparer::same_form(Item g, Item a) {
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

bool Comparer::is_both_signs(Side side, Item item) const {
  const Node& node = at(side, item);
  return item.sign == 0 && !is_collection(node) && has_plus_minus(tree(side), item.node);
}

bool Comparer::same_words(Item g, Item a) {
  const auto key = [this](Side side, Item item) {
    const Node* node = &at(side, item);
    if (node->kind == Kind::quantity) return std::string();
    return node->kind == Kind::words || node->kind == Kind::symbol ? text_key(node->text) : std::string();
  };
  const std::string of_gold = key(Side::gold, g);
  const std::string of_answer = key(Side::answer, a);
  return !of_gold.empty() && of_gold == of_answer;
}

bool Comparer::is_plain_number(Side side, Item item) const noexcept {
  const Node* node = &at(side, item);
  if (node->kind == Kind::sum && node->count == 1) node = &tree(side).child_at(*node, 0);
  return node->kind == Kind::number;
}

bool Comparer::same_quantities(Item g, Item a) {
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

bool Comparer::same_units(Item g, Item a) {
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
  const auto scale = [this](Side side, Item item) {
    return at(side, item).kind == Kind::quantity ? magnitude(at(side, part(side, item, 1)).text) : 1.0L;
  };
  const auto same_amount = [&](long double of_gold, long double of_answer) {
    const auto u = value(Side::gold, x).real();
    const auto v = value(Side::answer, y).real();
    return u && v && std::abs(*u * of_gold - *v * of_answer) <= 1e-9L * std::abs(*u * of_gold);
  };
  const long double of_gold = scale(Side::gold, g), of_answer = scale(Side::answer, a);
  if (of_gold != of_answer) return same_amount(of_gold, of_answer);  // 5 million is 5,000,000, of whatever
  if (!p.known || !q.known || (p.dimensions == q.dimensions && p.factor == q.factor)) return same(x, y);
  return p.dimensions == q.dimensions && same_amount(p.factor, q.factor);
}

}  // namespace qrl::reward::math

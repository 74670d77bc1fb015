#include "reward/math/comparer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "reward/math/clock.h"
#include "reward/math/forms.h"
#include "reward/math/prose.h"
#include "reward/math/texts.h"
#include "reward/math/units.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxSignChoices = 32;

}  // namespace

bool ends_within(std::int64_t denominator, std::size_t places) noexcept {
  std::size_t twos = 0, fives = 0;
  for (; denominator % 2 == 0; denominator /= 2) ++twos;
  for (; denominator % 5 == 0; denominator /= 5) ++fives;
  return denominator == 1 && std::max(twos, fives) <= places;
}

Value Comparer::value(Side side, Item item, Algebra& algebra) {
  return Evaluator(tree(side), algebra, budget_, item.sign >= 0).value(item.node);
}

const Value& Comparer::value(Side side, Item item) {
  const std::size_t key =
      static_cast<std::size_t>(item.node) * 4 + (item.sign >= 0 ? 2 : 0) + (side == Side::gold ? 1 : 0);
  if (key >= known_.size()) known_.resize(key + 1);
  if (known_[key] == nullptr) known_[key] = &values_.emplace_back(value(side, item, algebra_));
  return *known_[key];
}

bool Comparer::same_value(Item g, Item a) {
  const Value& first = value(Side::gold, g);
  const Value& second = value(Side::answer, a);
  if (budget_.spent()) return false;
  const auto is_number = [this](Side side, Item item) { return at(side, item).kind != Kind::product; };
  if ((first.infinite != 0 || second.infinite != 0) && is_number(Side::gold, g) != is_number(Side::answer, a))
    return false;  // 2∞ is no answer
  if (equal(first, second)) return alternates_alike(g, a);
  if (has_symbolic_factorials(gold_, g.node) || has_symbolic_factorials(answer_, a.node)) {
    Algebra algebra(0, true);
    if (equal(value(Side::gold, g, algebra), value(Side::answer, a, algebra)) && !budget_.spent()) return true;
  }
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

bool Comparer::alternates_alike(Item g, Item a) {
  if (!alternates(gold_, g.node) && !alternates(answer_, a.node)) return true;
  constexpr std::uint64_t kRounds = 16;
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    Algebra algebra(0, false, round);
    if (!equal(value(Side::gold, g, algebra), value(Side::answer, a, algebra)) || budget_.spent()) return false;
  }
  return true;
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
  // What has an end is written to its end: 3.000001 is not 3.
  const Value& other = of_gold > 0 ? y : x;
  if (other.is_rational() && ends_within(other.exact->q.denominator, digits)) return false;
  const auto p = x.real();
  const auto q = y.real();
  return digits >= 6 && p && q && std::abs(*p - *q) <= std::pow(10.0L, -static_cast<long double>(digits)) * 1.0001L;
}

bool Comparer::same(Item g, Item a) {
  if (!budget_.spend(2) || ++depth_ > kMaxTreeDepth) return false;
  const bool result = same_form(g, a);
  --depth_;
  return result;
}

bool Comparer::same_form(Item g, Item a) {
  const bool sets = is_set_like(gold_, g.node) || is_set_like(answer_, a.node);
  for (const auto without : {without_point_name, without_transpose, without_words, without_domain}) {
    if (sets && without == without_domain) continue;  // {kπ | k ∈ ℤ} has its domain elsewhere
    const NodeIdx of_gold = without(gold_, g.node), of_answer = without(answer_, a.node);
    if ((of_gold == g.node) != (of_answer == a.node)) g.node = of_gold, a.node = of_answer;
  }
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
  if (gold.kind == Kind::words || answer.kind == Kind::words) return same_words(g, a) || same_reals(g, a);
  const bool relation = gold.kind == Kind::relation || answer.kind == Kind::relation;
  if (!relation && modulus_of(gold_, g.node) >= 0 && modulus_of(answer_, a.node) >= 0) return same_residues(g, a);
  if (relation && (is_both_signs(Side::gold, g) || is_both_signs(Side::answer, a))) return same_of_both_signs(g, a);
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
  if (same_components(g, a)) return true;
  if (is_matrix(gold_, g.node) || is_matrix(answer_, a.node)) return same_matrices(g, a);
  if (is_collection(gold) || is_collection(answer)) {
    const auto of_gold = offers_alternatives(gold_, g.node), of_answer = offers_alternatives(answer_, a.node);
    const bool same_joint = !of_gold || !of_answer || of_gold == of_answer;
    return (same_joint && same_collections(g, a)) || same_reals(g, a);
  }
  if (is_set_like(gold_, g.node) || is_set_like(answer_, a.node))
    return same_sets(g, a) || same_families(g, a) || same_reals(g, a);
  return same_quantities(g, a);
}

bool Comparer::same_of_both_signs(Item g, Item a) {
  const bool relations = at(Side::gold, g).kind == Kind::relation && at(Side::answer, a).kind == Kind::relation;
  if (relations) {
    const Node& gold = at(Side::gold, g);
    const Node& answer = at(Side::answer, a);
    const bool pairs = gold.count == 2 && answer.count == 2;
    const bool member = pairs && (gold_.link(gold, 1).code == 'e') != (answer_.link(answer, 1).code == 'e');
    return same_pair(g, a, member, false) || same_collections(g, a);  // x ∈ {−2, 2}
  }
  return at(Side::gold, g).kind == Kind::relation ? is_value_of(Side::gold, g, a) : is_value_of(Side::answer, a, g);
}

bool Comparer::is_both_signs(Side side, Item item) const {
  const Node& node = at(side, item);
  return item.sign == 0 && !is_collection(node) && has_plus_minus(tree(side), item.node);
}

bool Comparer::same_residues(Item g, Item a) {
  const Item gold_modulus{modulus_of(gold_, g.node), g.sign};
  const Item answer_modulus{modulus_of(answer_, a.node), a.sign};
  if (!same(gold_modulus, answer_modulus)) return false;
  return same_value(g, a) || same(part(Side::gold, g, 0), part(Side::answer, a, 0));
}

bool Comparer::same_words(Item g, Item a) {
  const auto key = [this](Side side, Item item) {
    const Node& node = at(side, item);
    const std::string_view run = capitals(tree(side), item.node).letters;
    return text_key(node.kind == Kind::words || node.kind == Kind::symbol ? node.text : run);
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
  const Capitals of_gold = capitals(gold_, g.node);
  const Capitals of_answer = capitals(answer_, a.node);
  if (of_gold.letters.size() > 2 && of_answer.letters.size() > 2) return same_capitals(of_gold, of_answer);
  if (const auto times = same_times(g, a)) return *times;
  const bool money = !gold_.tokens.currency.empty() || !answer_.tokens.currency.empty();
  // A letter of an answer is a unit where the gold answer has no variables: 6 m/s.
  const bool letters = gold.kind == Kind::quantity || is_plain_number(Side::gold, g);
  const bool unit = letters && !unit_letters(answer_, a.node).empty();
  if (gold.kind == Kind::quantity || answer.kind == Kind::quantity || money || unit) return same_units(g, a);
  return same_marked(g, a) || same_renamed(g, a);
}

bool Comparer::same_marked(Item g, Item a) {
  const Node& gold = at(Side::gold, g);
  const Node& answer = at(Side::answer, a);
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

bool Comparer::same_currency() const noexcept {
  const std::string_view gold = gold_.tokens.currency;
  const std::string_view answer = answer_.tokens.currency;
  return gold.empty() || answer.empty() || gold == answer;
}

Comparer::Amount Comparer::amount(Side side, Item item) const {
  const Node& node = at(side, item);
  const std::string_view currency = tree(side).tokens.currency;
  Amount amount{item, {}, 1, {}};
  if (node.kind == Kind::quantity) {
    amount.number = part(side, item, 0);
    amount.words = at(side, part(side, item, 1)).text;
    amount.scale = magnitude(amount.words);
    amount.unit = measure(amount.words);
  }
  if (const std::string_view letters = side == Side::answer ? unit_letters(answer_, item.node) : ""; !letters.empty()) {
    amount.number = part(side, item, 0);
    amount.words = letters;
    amount.unit = measure(letters);
  }
  const bool rate = amount.words.starts_with('/') || amount.words.starts_with("per ");
  if ((!amount.unit.known || rate) && !currency.empty()) {
    amount.unit = measure(std::string(currency) + " " + std::string(amount.words));
  }
  return amount;
}

bool Comparer::may_be_units(const Amount& gold, const Amount& answer) const {
  const bool known = (gold.words.empty() || gold.unit.known) && (answer.words.empty() || answer.unit.known);
  if (known || text_key(gold.words) == text_key(answer.words)) return true;
  const std::set<std::string> of_gold = saying_words(gold.words), of_answer = saying_words(answer.words);
  if (of_gold == of_answer) return true;
  const bool symbols = has_symbols(gold_, gold.number.node) || has_symbols(answer_, answer.number.node);
  return !symbols && (of_gold.empty() || of_answer.empty());  // 7 apples left are 7 apples; n, odd, is not n
}

bool Comparer::same_units(Item g, Item a) {
  Amount gold = amount(Side::gold, g);
  Amount answer = amount(Side::answer, a);
  const auto is_fraction = [this](Side side, const Amount& of) { return at(side, of.number).kind != Kind::number; };
  const bool changed = changes(gold.words, is_fraction(Side::gold, gold));
  if (changed != changes(answer.words, is_fraction(Side::answer, answer)) ||
      (changed && text_key(gold.words) != text_key(answer.words)))
    return false;
  if (!may_be_units(gold, answer)) return false;
  const auto same_amount = [&](long double of_gold, long double of_answer) {
    const auto u = value(Side::gold, gold.number).real();
    const auto v = value(Side::answer, answer.number).real();
    return u && v && std::abs(*u * of_gold - *v * of_answer) <= 1e-9L * std::abs(*u * of_gold);
  };
  const auto is_temperature = [](const Measure& unit) { return unit.dimensions == "k" || unit.dimensions == "f"; };
  const auto are_degrees = [&](const Measure& unit, const Measure& other) {
    return is_temperature(unit) && other.dimensions == "a" && other.factor == 1;
  };
  // A percentage or an angle is of another kind than what has a unit.
  const auto unmark = [this](Side side, Amount& amount) {
    const Node& node = at(side, amount.number);
    if (amount.unit.known || (node.kind != Kind::percent && node.kind != Kind::degree)) return;
    amount.unit = node.kind == Kind::percent ? Measure{"%", 1, true} : Measure{"a", 1, true};
    amount.number = part(side, amount.number, 0);
  };
  if (answer.unit.known) unmark(Side::gold, gold);
  if (gold.unit.known) unmark(Side::answer, answer);
  if (are_degrees(gold.unit, answer.unit) || are_degrees(answer.unit, gold.unit))
    return same(gold.number, answer.number);
  if (gold.unit.known && answer.unit.known) {
    if (gold.unit.dimensions != answer.unit.dimensions) return false;
    gold.scale *= gold.unit.factor;
    answer.scale *= answer.unit.factor;
  }
  if (gold.scale != answer.scale) return same_amount(gold.scale, answer.scale);  // 5 million is 5,000,000, of whatever
  const bool plain = gold.number.node == g.node && answer.number.node == a.node;
  return plain ? same_marked(g, a) : same(gold.number, answer.number);
}

std::optional<bool> Comparer::same_times(Item g, Item a) {
  const auto gold = clock_of(gold_, g.node);
  const auto answer = clock_of(answer_, a.node);
  if (gold && answer) return same_time(*gold, *answer);
  if (!gold && !answer) return std::nullopt;
  const Clock& clock = gold ? *gold : *answer;
  const Node& other = gold ? at(Side::answer, a) : at(Side::gold, g);
  if (!clock.marked && !(gold && is_surely_time(clock))) return std::nullopt;
  const Item bare = gold ? a : g;
  const auto hour = value(gold ? Side::answer : Side::gold, bare).real();  // 5 for 5 p.m.
  const bool money = !tree(gold ? Side::answer : Side::gold).tokens.currency.empty();
  return clock.marked && other.kind == Kind::number && !money && clock.minute == 0 && hour && *hour == clock.hour;
}

}  // namespace qrl::reward::math

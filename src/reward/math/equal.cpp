#include "reward/math/equal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace qrl::reward::math {

namespace {

// Numbers of lanes on which values must agree. A lane assigns random values to the variables. kManyLanes applies if
// variables are integers or may be negative.
constexpr std::size_t kFewLanes = 3, kManyLanes = 12;

bool is_plain_number(const Answer& x) noexcept { return unsigned_of(x.at()).is(Kind::number); }
bool is_marked(const Answer& x) noexcept { return x.at().is(Kind::percent, Kind::degree); }

void unmark(Answer& x) noexcept {
  x.notes.unit.dimensions = Measure::number_of(x.at().is(Kind::percent) ? '%' : 'a');
  x.node = &x.at()[0];
}

/// Returns whether a unit's only letter is a small one, with or without an exponent.
bool is_small_letter(std::string_view unit) noexcept {
  return unit[0] >= 'a' && std::ranges::count_if(unit, base::is_letter) == 1;
}

/// Returns those of `words` that both answers must share (WordClass::saying).
std::set<std::string> saying_words(std::string_view words, const Vocabulary& vocabulary) {
  std::set<std::string> found;
  for (Words each{words}; each.next();)
    if (vocabulary.is(WordClass::saying, each.word)) found.insert(each.word);
  return found;
}

/// Returns whether an absolute value or a root such as √((x − y)²) occurs. The term x − y may be negative even if x and
/// y are positive.
bool has_bars(const Node& at) {
  return any_node(at, [](const Node& part) {
    return part.is(Kind::absolute) || (part.is(Kind::call) && static_cast<Law>(part.code) == Law::abs) ||
           (part.is(Kind::root) && part[0].is(Kind::power) &&
            std::ranges::count(part[0][0].parts, '-', &Node::joint) > 0);
  });
}

/// Returns whether the sign depends on a variable's parity: (−1)ⁿ.
bool alternates(const Node& x) noexcept {
  return any_node(x, [](const Node& at) {
    return at.is(Kind::power) && has_symbols(at[1]) && at[0].is(Kind::sum) && !has_symbols(at[0]);
  });
}

/// Returns whether only one side is a decimal, it has six or more places, and the other side rounds or truncates to it.
bool rounds(const Answer& g, const Answer& a, const Value& x, const Value& y) {
  const auto places = [](const Answer& of) -> std::size_t {
    const std::string_view text = unsigned_of(of.at()).text;
    const std::size_t first = std::min(text.find_first_not_of("0."), text.size());
    return text.size() - first < 5 ? 0 : places_of(of.at());
  };
  const std::size_t of_gold = places(g), of_answer = places(a), digits = std::max(of_gold, of_answer);
  if ((of_gold > 0) == (of_answer > 0)) return false;
  const Value& other = of_gold > 0 ? y : x;
  if (other.exact && ends_within(other.exact->denominator, digits)) return false;  // 3.000001 is not 3
  const auto p = x.real(), q = y.real();
  return digits >= 6 && p && q && std::abs(*p - *q) <= std::pow(10.0L, -static_cast<long double>(digits)) * 1.0001L;
}

/// Returns the letters of a text, a symbol or a product of adjacent letters (Bob, HTH); otherwise empty.
std::string_view shown_letters(const Answer& x) noexcept {
  const Node& at = x.at();
  if (x.form == Form::text || at.is(Kind::symbol)) return at.text;
  return x.form == Form::value && at.is(Kind::product) ? letters_in_a_row(at.parts) : std::string_view();
}

/// Returns whether `x` is a list of inequalities or letters, for which "and" and "or" differ.
bool is_joint(const Answer& x) {
  return x.form == Form::list && x.parts.size() > 1 && std::ranges::all_of(x.parts, [](const Answer& part) {
           const auto ordered = [](const Node& side) { return is_order(side.joint); };
           return part.form == Form::relation ? std::ranges::all_of(part.at().rest(), ordered)
                                              : !shown_letters(part).empty();
         });
}

std::string choices_of(const Answer& x) {
  std::string all = x.notes.run;
  for (const Answer& part : x.parts)
    if (is_capital(part.at())) all += part.at().text;
  std::ranges::sort(all);
  return all;
}

}  // namespace

bool ends_within(std::int64_t denominator, std::size_t places) noexcept {
  for (; places > 0; --places) denominator /= std::gcd(denominator, std::int64_t{10});
  return denominator == 1;
}

bool Equality::run(const Answer& gold, const Answer& answer) {
  variables_ = {alternates(gold.at()) || alternates(answer.at()), has_bars(gold.at()) || has_bars(answer.at())};
  const std::string_view money = gold.tree->tokens.currency, other = answer.tree->tokens.currency;
  return (money.empty() || other.empty() || money == other) && same(gold, answer);
}

const Value& Equality::value(const Answer& x, std::size_t lane) {
  const auto [known, is_new] = values_.try_emplace({x.node, x.sign >= 0, lane});
  if (is_new) known->second = evaluator(x, lane).value(x.at());
  return known->second;
}

bool Equality::same(const Answer& g, const Answer& a) {
  if (!budget_.spend(2) || ++depth_ > kMaxTreeDepth) return false;
  const bool result = same_notes(g, a) && same_form(g, a);
  --depth_;
  return result;
}

/// Compares names, and words of WordClass::saying. A missing name equals any name. If neither side has variables,
/// missing words equal any words.
bool Equality::same_notes(const Answer& g, const Answer& a) const {
  if (!g.notes.name.empty() && !a.notes.name.empty() && g.notes.name != a.notes.name) return false;
  if (g.notes.words == a.notes.words) return true;
  const auto of_gold = saying_words(g.notes.words, vocabulary_), of_answer = saying_words(a.notes.words, vocabulary_);
  const bool symbols = has_symbols(g.at()) || has_symbols(a.at());
  return of_gold == of_answer || (!symbols && (of_gold.empty() || of_answer.empty()));
}

bool Equality::same_form(const Answer& g, const Answer& a) {
  if (g.form == Form::text || a.form == Form::text) {
    const std::string key = text_key(shown_letters(g), vocabulary_);
    return !key.empty() && key == text_key(shown_letters(a), vocabulary_);
  }
  if (g.form == Form::value && a.form == Form::value) return same_values(g, a);
  const bool relations[] = {g.form == Form::relation, a.form == Form::relation};
  const bool same = relations[0] && relations[1]             ? same_relations(g, a)
                    : relations[0]                           ? says(g, a, true)
                    : relations[1]                           ? says(a, g, false)
                    : g.is_collection() || a.is_collection() ? same_collections(g, a)
                                                             : same_sets(g, a);
  return same || same_reals(g, a);
}

// ---- values

bool Equality::same_values(const Answer& g, const Answer& a) {
  if (g.notes.run.size() > 2 && a.notes.run.size() > 2) return g.notes.run == a.notes.run;
  if ((g.notes.unit.is('p') || a.notes.unit.is('p')) && g.at().kind != a.at().kind)
    return false;  // 7:30 p.m. is not 7/30
  const auto modulus = modulus_of(g.at()), other = modulus_of(a.at());
  if (modulus && other && !same_value({.node = modulus}, {.node = other})) return false;  // 3 mod 7 is not 3 mod 5
  // Letters that may be a unit are one if the other side has none that may be a variable: 12 N is 12, and not 12 x. A
  // small letter alone in the gold answer is a variable unless the answer has a unit: 2 m is 200 cm, and not 2.
  const bool letters[] = {!g.parts.empty(), !a.parts.empty()};
  if (letters[0] == letters[1]) return same_units(g, a) || (letters[0] && same_units(g.parts[0], a.parts[0]));
  const bool is_variable = letters[0] && a.notes.words.empty() && is_small_letter(g.parts[0].notes.words);
  const bool is_unit = !is_variable && !has_symbols((letters[0] ? a : g).at());
  return same_units(letters[0] && is_unit ? g.parts[0] : g, letters[1] && is_unit ? a.parts[0] : a);
}

Measure Equality::unit_of(const Answer& x) const {
  const std::string_view currency = x.tree->tokens.currency, words = x.notes.words;
  const bool rate = words.starts_with('/') || words.starts_with("per ");
  if (currency.empty() || (x.notes.unit.is_known() && !rate)) return x.notes.unit;
  return measure(std::string(currency) + ' ' + std::string(words), vocabulary_);
}

bool Equality::same_units(Answer g, Answer a) {
  g.notes.unit = unit_of(g);
  a.notes.unit = unit_of(a);
  const bool known[] = {g.notes.unit.is_known(), a.notes.unit.is_known()};
  Answer& other = known[0] ? a : g;  // compares 50 % or 90° with a value that has a unit
  if (known[0] != known[1] && is_marked(other)) unmark(other);
  const auto by = scales(g.notes.unit, a.notes.unit);
  if (!by) return false;
  if ((*by)[0] != (*by)[1]) {  // "5 million" equals 5,000,000; 2 km equals 2,000 m
    const auto u = value(g).real(), v = value(a).real();
    return u && v && std::abs(*u * (*by)[0] - *v * (*by)[1]) <= 1e-9L * std::abs(*u * (*by)[0]);
  }
  if (same_value(g, a) || is_marked(g) == is_marked(a)) return same_value(g, a);
  Answer& marked = is_marked(g) ? g : a;  // accepts 20 for 20 %, 90 for 90°
  const bool percent = marked.at().is(Kind::percent);
  unmark(marked);
  return (!percent || (is_plain_number(g) && is_plain_number(a))) && same_value(g, a);
}

bool Equality::same_value(const Answer& g, const Answer& a) {
  for (std::size_t lane = 0; lane < (variables_.whole || variables_.signs ? kManyLanes : kFewLanes); ++lane) {
    const Value &x = value(g, lane), &y = value(a, lane);
    if (budget_.spent()) return false;
    if (!equal(x, y)) return lane == 0 && rounds(g, a, x, y);
    if (x.exact && y.exact) break;
  }
  return true;
}

// ---- collections

bool Equality::same_collections(const Answer& g, const Answer& a) {
  if (is_joint(g) && is_joint(a) && g.either != a.either) return false;
  const bool is_gold = g.is_collection(), tuples[] = {g.form == Form::tuple, a.form == Form::tuple};
  const Answer &some = is_gold ? g : a, &other = is_gold ? a : g;
  if (!other.is_collection()) {
    if (some.form == Form::tuple) return some.at().is(Kind::matrix) && same_value(g, a);  // a multiple of a matrix: 2A
    const std::string letters = choices_of(some);
    if (some.form == Form::list && letters.size() == some.parts.size() && letters == choices_of(other)) return true;
    if (some.form == Form::set && other.form == Form::sets) return false;  // {∅} has a member, ∅ none
  }
  const Parts x = g.is_collection() ? Parts(g.parts) : Parts(&g, 1),
              y = a.is_collection() ? Parts(a.parts) : Parts(&a, 1);
  if (tuples[0] && tuples[1]) {
    const Node &gold = g.at(), &answer = a.at();
    // Pairs may be intervals, whose brackets must agree.
    const bool brackets = x.size() != 2 || (gold.open == answer.open && gold.close == answer.close);
    return (gold.kind != answer.kind || (gold.columns == answer.columns && brackets)) && in_order(x, y);
  }
  if (tuples[0] || tuples[1]) {  // x = 3, y = 4 equals (3, 4), but y = 4, x = 3 does not
    const Answer &tuple = tuples[0] ? g : a, &list = tuples[0] ? a : g;
    const auto name_of = [](const Answer& part) {
      return part.form == Form::relation ? form_of(part.parts[0].at()) : std::string();
    };
    return list.form == Form::list && tuple.at().open == '(' && tuple.at().close == ')' && !list.signs &&
           !list.either && std::ranges::is_sorted(list.parts, {}, name_of) && in_order(x, y);
  }
  // Counts repetitions in lists (1, 1, 2 differs from 1, 2), except in lists of collections.
  return as_sets(x, y, g.form == Form::list && a.form == Form::list && !x[0].is_collection());
}

bool Equality::in_order(Parts x, Parts y) {
  return std::ranges::equal(x, y, [this](const Answer& one, const Answer& other) { return same(one, other); });
}

/// Returns a hash of a number or point; equal values have equal hashes. Returns 0 for other answers.
std::uint64_t Equality::image(const Answer& of) {
  const auto is_more = [](const Node& part) { return part.is(Kind::quantity) || is_capital(part); };
  const bool number = of.form == Form::value || of.at().is(Kind::tuple);
  if (!number || !of.notes.words.empty() || any_node(of.at(), is_more)) return 0;
  const auto one = value(of).image, other = value(of, 1).image;
  return one && other ? (*one ^ (*other << 1)) | 1 : 0;
}

/// Compares two collections regardless of order. If `counted`, repetitions count.
bool Equality::as_sets(Parts x, Parts y, bool counted) {
  const std::size_t most = std::max(x.size(), y.size());
  if ((counted && x.size() != y.size()) || most > 2 * std::min(x.size(), y.size()) + 2) return false;
  struct Member {
    const Answer* answer;
    std::uint64_t image;
    std::string label;  ///< the counted noun: "apple" for 3 apples
  };
  const auto members = [&](Parts of) {
    std::vector<Member> all;
    for (const Answer& each : of) {
      all.push_back({&each, image(each), text_key(each.notes.words, vocabulary_)});
      if (all.back().label.ends_with('s')) all.back().label.pop_back();
    }
    std::ranges::stable_sort(all, {}, &Member::image);
    const auto twice = [](const Member& m, const Member& n) { return m.image != 0 && m.image == n.image; };
    if (!counted) all.erase(std::unique(all.begin(), all.end(), twice), all.end());
    return all;
  };
  const std::vector<Member> gold = members(x), answer = members(y);
  if (gold[0].image != 0 && std::ranges::equal(gold, answer, {}, &Member::image, &Member::image)) return true;
  std::vector<bool> found(answer.size());
  const auto match = [&](std::size_t i, std::size_t j) {
    const Member &one = gold[i], &other = answer[j];
    // Rejects 3 apples for 3 pears if one collection has both apples and pears.
    const bool apart = !one.label.empty() && !other.label.empty() && one.label != other.label &&
                       (std::ranges::count(answer, one.label, &Member::label) > 0 ||
                        std::ranges::count(gold, other.label, &Member::label) > 0);
    const bool taken = counted && found[j];
    return !taken && !apart && budget_.spend() && same(*one.answer, *other.answer) && (found[j] = true);
  };
  const auto all_match = [](const auto& of, const auto& others, const auto& matches) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      auto at = std::ranges::lower_bound(others, of[i].image, {}, &Member::image) - others.begin();
      std::size_t tries = 0;
      while (tries < others.size() && !matches(i, static_cast<std::size_t>(at++) % others.size())) ++tries;
      if (tries == others.size()) return false;
    }
    return true;
  };
  return all_match(gold, answer, match) &&
         all_match(answer, gold, [&](std::size_t j, std::size_t i) { return found[j] || match(i, j); });
}

/// Compares unions and differences operand by operand.
bool Equality::same_sets(const Answer& g, const Answer& a) {
  if (!g.at().is(Kind::set_operation) || !a.at().is(Kind::set_operation)) return same_value(g, a);
  const auto& operands = g.at().parts;
  if (!std::ranges::equal(operands, a.at().parts, {}, &Node::joint, &Node::joint)) return false;
  return std::ranges::count(operands, 'D', &Node::joint) > 0 ? in_order(g.parts, a.parts)
                                                             : as_sets(g.parts, a.parts, false);
}

}  // namespace qrl::reward::math

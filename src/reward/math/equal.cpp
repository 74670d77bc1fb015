// Which rule serves which pair of forms; texts and values.
#include "reward/math/equal.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kFewLanes = 3, kManyLanes = 12;  // the latter where variables are not just positive

bool is_plain_number(const Answer& x) noexcept { return unsigned_of(x.at()).is(Kind::number); }

/// Words behind a number that say something: left out on one side they are no unit.
std::set<std::string> saying_words(std::string_view words, const Vocabulary& vocabulary) {
  std::set<std::string> found;
  for (Words each{words}; each.next();)
    if (vocabulary.is(WordClass::saying, each.word)) found.insert(each.word);
  return found;
}

/// |x| and √((x − 2)²), which is |x − 2|: a difference of positive variables has any sign.
bool has_bars(const Node& at) {
  return any_node(at, [](const Node& part) {
    const bool square = part.is(Kind::root) && part[0].is(Kind::power) && part[0][0].is(Kind::sum);
    return part.is(Kind::absolute) || (part.is(Kind::call) && static_cast<Law>(part.code) == Law::abs) ||
           (square && std::ranges::any_of(part[0][0].parts, [](const Node& term) { return term.joint == '-'; }));
  });
}

}  // namespace

bool ends_within(std::int64_t denominator, std::size_t places) noexcept {
  std::size_t twos = 0, fives = 0;
  for (; denominator % 2 == 0; denominator /= 2) ++twos;
  for (; denominator % 5 == 0; denominator /= 5) ++fives;
  return denominator == 1 && std::max(twos, fives) <= places;
}

bool alternates(const Answer& x) noexcept {
  return any_node(x.at(), [](const Node& at) {
    return at.is(Kind::power) && has_symbols(at[1]) && at[0].is(Kind::sum) && !has_symbols(at[0]);
  });
}

bool Equality::run(const Answer& gold, const Answer& answer) {
  variables_ = {alternates(gold) || alternates(answer), has_bars(gold.at()) || has_bars(answer.at())};
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
  const bool result = same_form(g, a);
  --depth_;
  return result;
}

/// Whether notes agree where both sides have them; words that say something of a formula must stand beside both.
bool Equality::same_notes(const Answer& g, const Answer& a) const {
  if (!g.notes.name.empty() && !a.notes.name.empty() && g.notes.name != a.notes.name) return false;
  if (g.notes.words == a.notes.words) return true;
  const auto of_gold = saying_words(g.notes.words, vocabulary_), of_answer = saying_words(a.notes.words, vocabulary_);
  const bool symbols = has_symbols(g.at()) || has_symbols(a.at());
  return of_gold == of_answer || (!symbols && (of_gold.empty() || of_answer.empty()));
}

bool Equality::same_form(const Answer& g, const Answer& a) {
  if (!same_notes(g, a)) return false;
  if (g.form == Form::text || a.form == Form::text) return same_texts(g, a);
  if (g.form == Form::relation && a.form == Form::relation) return same_relations(g, a) || same_reals(g, a);
  if (g.form == Form::relation) return says(g, a, true) || same_reals(g, a);
  if (a.form == Form::relation) return says(a, g, false) || same_reals(g, a);
  if (g.is_collection() || a.is_collection()) return same_collections(g, a) || same_reals(g, a);
  if (g.form == Form::sets || a.form == Form::sets) return same_sets(g, a) || same_reals(g, a);
  return same_values(g, a);
}

std::string_view shown_letters(const Answer& x) noexcept {
  const Node& at = x.at();
  if (x.form == Form::text || at.is(Kind::symbol)) return at.text;
  return x.form == Form::value && at.is(Kind::product) ? letters_in_a_row(at.parts) : std::string_view();
}

/// Texts: by the letters that are shown.
bool Equality::same_texts(const Answer& g, const Answer& a) const {
  const std::string key = text_key(shown_letters(g), vocabulary_);
  return !key.empty() && key == text_key(shown_letters(a), vocabulary_);
}

// ---- values

bool Equality::same_values(const Answer& g, const Answer& a) {
  if (g.notes.run.size() > 2 && a.notes.run.size() > 2) return g.notes.run == a.notes.run;
  const auto is_time = [](const Answer& x) { return x.notes.unit.is('p') || x.notes.unit.is('d'); };
  if ((is_time(g) || is_time(a)) && g.at().kind != a.at().kind) return false;
  const auto modulus = modulus_of(g.at()), other = modulus_of(a.at());
  if (modulus && other) {  // 3 mod 7 and 10 mod 7, but not 3 mod 5
    Answer x = g, y = a;
    x.node = modulus;
    y.node = other;
    if (!same_value(x, y)) return false;
  }
  const bool unit = !a.parts.empty() && (!g.notes.words.empty() || is_plain_number(g));  // 6 m/s
  return same_units(g, unit ? a.parts[0] : a);
}

bool Equality::same_units(const Answer& g, const Answer& a) {
  const std::string_view gold_money = g.tree->tokens.currency, answer_money = a.tree->tokens.currency;
  if (g.notes.words.empty() && a.notes.words.empty() && gold_money.empty() && answer_money.empty())
    return same_marked(g, a);
  const auto amount = [this](Answer of) {
    const std::string_view currency = of.tree->tokens.currency, words = of.notes.words;
    const bool rate = words.starts_with('/') || words.starts_with("per ");
    if ((!of.notes.unit.is_known() || rate) && !currency.empty())
      of.notes.unit = measure(std::string(currency) + " " + std::string(words), vocabulary_);
    return of;
  };
  Answer gold = amount(g), answer = amount(a);
  // A percentage or an angle is of another kind than what has a unit.
  const auto unmark = [](Answer& of) {
    const Kind kind = of.at().kind;
    if (of.notes.unit.is_known() || (kind != Kind::percent && kind != Kind::degree)) return;
    of.notes.unit.dimensions = Measure::number_of(kind == Kind::percent ? '%' : 'a');
    of.node = &of.at()[0];
  };
  if (answer.notes.unit.is_known()) unmark(gold);
  if (gold.notes.unit.is_known()) unmark(answer);
  const auto by = scales(gold.notes.unit, answer.notes.unit);
  if (!by || (*by)[0] == (*by)[1]) return by && same_marked(gold, answer);
  const auto u = value(gold).real(), v = value(answer).real();  // 5 million is 5,000,000, of whatever
  return u && v && std::abs(*u * (*by)[0] - *v * (*by)[1]) <= 1e-9L * std::abs(*u * (*by)[0]);
}

/// Numbers without words: 20 for 20 %, 90 for 90°.
bool Equality::same_marked(const Answer& g, const Answer& a) {
  if (same_value(g, a)) return true;
  const auto is_marked = [](const Answer& x) { return x.at().kind == Kind::percent || x.at().kind == Kind::degree; };
  if (is_marked(g) == is_marked(a)) return false;
  Answer gold = g, answer = a;
  Answer& marked = is_marked(g) ? gold : answer;
  const bool percent = marked.at().kind == Kind::percent;
  marked.node = &marked.at()[0];
  return (!percent || (is_plain_number(gold) && is_plain_number(answer))) && same_value(gold, answer);
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

/// A decimal written with six places or more, within one unit of its last place of the other side, which is none: so
/// that it may be rounded or cut off.
bool Equality::rounds(const Answer& g, const Answer& a, const Value& x, const Value& y) const {
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

}  // namespace qrl::reward::math

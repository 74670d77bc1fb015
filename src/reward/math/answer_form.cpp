#include <algorithm>
#include <cmath>
#include <numeric>

#include "reward/math/evaluate.h"
#include "reward/math/math_verifier.h"

namespace qrl::reward::math {

namespace {

class AnswerForm {
 public:
  bool has_operation_left(const Node& at) {
    if (is_rational(at)) return !is_one_number(at);
    if (at.is(Kind::product)) return left_in_product(at);
    if (at.is(Kind::relation)) return left_in_relation(at);
    const auto is_number = [this](const Node& term) { return is_rational(term); };
    return (at.is(Kind::sum) && std::ranges::count_if(at.parts, is_number) > 1) || any_left(at);
  }
  bool any_left(const Node& at) {
    return std::ranges::any_of(at.parts, [this](const Node& part) { return has_operation_left(part); });
  }

 private:
  using Numbers = std::vector<const Node*>[2];  ///< factors of numerator and denominator

  /// Returns whether a product is not fully computed, such as 2·3√2. The numeric factors of a computed product are one
  /// number or one reduced fraction.
  bool left_in_product(const Node& at) {
    Numbers numbers;
    if (collect(at, false, numbers)) return true;
    const auto& [above, below] = numbers;
    if (above.size() > 1 || below.size() > 1) return true;
    return !below.empty() && !is_lowest_fraction(above.empty() ? nullptr : above[0], *below[0]);
  }

  /// Collects the rational factors, also of nested products. Returns whether any factor is not fully computed.
  bool collect(const Node& at, bool inverse, Numbers& numbers) {
    return std::ranges::any_of(at.parts, [&](const Node& part) {
      const bool below = (part.joint == '/') != inverse;
      if (is_rational(part)) numbers[below].push_back(&part);
      else if (part.is(Kind::product)) return collect(part, below, numbers);
      return has_operation_left(part);
    });
  }

  /// Returns whether a relation has operations left to compute. A chain of equalities (x = 25 + 60 = 85) has none if
  /// one side is fully computed; any other relation, if all sides are.
  bool left_in_relation(const Node& at) {
    const bool equality =
        std::ranges::all_of(at.rest(), [](const Node& side) { return side.joint == '=' || side.joint == 'a'; });
    bool open[2] = {}, done[2] = {};
    for (const Node& side : at.parts) {
      // Counts 10 (mod 7) as fully computed.
      const bool left = modulus_of(side) ? any_left(side) : has_operation_left(side);
      const bool formula = has_symbols(side);
      if (!equality && left) return true;
      if (!formula || !is_name(side)) (left ? open : done)[formula] = true;
    }
    return (open[0] && !done[0]) || (open[1] && !done[1]);
  }

  bool is_rational(const Node& at) {
    if (has_symbols(at)) return false;
    const Value value = Evaluator(algebra_, budget_).value(at);
    const auto number = value.real();
    if (budget_.spent() || !number) return false;
    const bool has_constants = any_node(at, [](const Node& part) { return part.is(Kind::constant); });
    if (value.image && !has_constants) return true;
    // Tests rational numbers p/q, because values such as √2·√2 and log₂8 may lack an exact form.
    constexpr int kMaxDenominator = 100;  // chosen by this project
    for (int q = 1; std::abs(*number) < 1e12L && q <= kMaxDenominator; ++q) {
      const auto p = static_cast<std::int64_t>(std::round(*number * q));
      if (equal(value, algebra_.divide(algebra_.integer(p), algebra_.integer(q)))) return true;
    }
    return false;
  }

  bool is_one_number(const Node& at) const {
    if (at.is(Kind::number, Kind::subscript)) return true;
    if (at.is(Kind::quantity, Kind::percent, Kind::degree)) return is_one_number(at[0]);
    if (at.is(Kind::sum)) return at.parts.size() == 1 && !at[0].is(Kind::sum) && is_one_number(at[0]);
    if (at.is(Kind::mixed)) return is_one_number(at[1]);
    if (!at.is(Kind::ratio, Kind::product) || at.parts.size() != 2) return false;
    return at.is(Kind::ratio) || at[1].joint == '/' ? is_lowest_fraction(&at[0], at[1]) : is_scientific(at);
  }

  /// Returns whether a fraction of integers is in lowest terms, with a denominator above 1. A null `above` means 1.
  /// Integers beyond 64 bits count as coprime.
  bool is_lowest_fraction(const Node* above, const Node& below) const {
    if (!is_digits(unsigned_of(below)) || (above != nullptr && !is_digits(unsigned_of(*above)))) return false;
    const auto a = above != nullptr ? integer_of(unsigned_of(*above)) : 1, b = integer_of(unsigned_of(below));
    return b != 1 && std::gcd(a.value_or(1), b.value_or(1)) == 1;
  }

  bool is_scientific(const Node& at) const {
    const Node& power = at[1];
    return power.joint == '*' && power.is(Kind::power) && integer_of(power[0]) == 10 &&
           is_digits(unsigned_of(power[1])) && unsigned_of(at[0]).is(Kind::number);
  }

  Algebra algebra_;
  Budget budget_;
};

const Node& bare_value(const Node& at) {
  const bool named = at.is(Kind::relation) && at.parts.size() == 2 && at[1].joint == '=' && is_name(at[0]);
  return named ? bare_value(at[1]) : at;
}

/// Returns whether no side of an equation is a computed value, as in 96 - 79 = x and 96 - 79 = ....
bool leaves_work(const Node& at) {
  const auto is_value = [](const Node& side) {
    return !side.is(Kind::dots, Kind::symbol, Kind::subscript) && !AnswerForm().has_operation_left(side);
  };
  return at.is(Kind::relation) && at[1].joint == '=' && std::ranges::none_of(at.parts, is_value);
}

const Node* root_of(const Reading& answer) {
  for (const Reading::Read& read : answer.reads)
    if (read.tree.root) return &*read.tree.root;
  return nullptr;
}

}  // namespace

bool is_worked_out_as(const Reading& gold, const Reading& answer) {
  const Node *of_gold = root_of(gold), *of_answer = root_of(answer);
  if (of_answer == nullptr) return true;
  if (!AnswerForm().has_operation_left(*of_answer) && !leaves_work(*of_answer)) return true;
  if (of_gold == nullptr) return false;
  if (modulus_of(*of_gold) && modulus_of(*of_answer) && of_answer->is(Kind::product))
    return !AnswerForm().any_left(*of_answer);
  return form_of(bare_value(*of_gold)) == form_of(bare_value(*of_answer));
}

}  // namespace qrl::reward::math

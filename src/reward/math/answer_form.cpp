#include "reward/math/answer_form.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

namespace {

/// Whether a tree has an operation on rational numbers left to do.
class AnswerForm {
 public:
  bool has_operation_left(const Node& at) {
    if (is_rational_number(at)) return !is_one_number(at);
    if (at.is(Kind::product)) return left_in_product(at);
    if (at.is(Kind::relation)) return left_in_relation(at);
    const auto is_number = [this](const Node& term) { return is_rational_number(term); };
    return (at.is(Kind::sum) && std::ranges::count_if(at.parts, is_number) > 1) || any_left(at);
  }
  bool any_left(const Node& at) {
    return std::ranges::any_of(at.parts, [this](const Node& part) { return has_operation_left(part); });
  }

 private:
  /// The rational numbers among the factors of a product and of the products that are factors of it.
  struct Factors {
    std::vector<const Node*> above, below;
  };

  /// 2·3√2 and 6π/4: the numbers among the factors are one number, above a fraction line, below it, or a fraction.
  bool left_in_product(const Node& at) {
    Factors factors;
    if (collect(at, false, factors)) return true;
    const auto& [above, below] = factors;
    if (above.size() > 1 || below.size() > 1) return true;
    if (below.empty()) return false;
    return above.empty() ? !is_integer(*below[0]) || size_of(*below[0]) == 1
                         : !is_lowest_fraction(*above[0], *below[0]);
  }

  /// Whether a factor has an operation left.
  bool collect(const Node& at, bool inverse, Factors& factors) {
    const bool scientific = begins_with_scientific(at);
    if (scientific) (inverse ? factors.below : factors.above).push_back(&at[0]);
    return std::ranges::any_of(at.rest(scientific ? 2 : 0), [&](const Node& part) {
      const bool divides = part.joint == '/', is_factor = divides || part.joint == 0 || part.joint == '*';
      const bool rational = is_rational_number(part);
      if (is_factor && !rational && part.is(Kind::product)) return collect(part, divides != inverse, factors);
      if (is_factor && rational) (divides != inverse ? factors.below : factors.above).push_back(&part);
      return has_operation_left(part);
    });
  }

  /// Of x = 25 + 60 = 85 the number counts that is worked out; of other relations every side.
  bool left_in_relation(const Node& at) {
    const bool equality =
        std::ranges::all_of(at.rest(), [](const Node& side) { return side.joint == '=' || side.joint == 'a'; });
    bool number = false, number_done = false, formula = false, formula_done = false;
    for (const Node& side : at.parts) {
      const bool left = modulus_of(side) ? any_left(side) : has_operation_left(side);  // x ≡ 10 (mod 7) names a class
      const bool of_numbers = is_of_numbers(side);
      if (!equality && left) return true;
      if (!of_numbers && is_name(side)) continue;
      (of_numbers ? number : formula) = true;
      if (!left) (of_numbers ? number_done : formula_done) = true;
    }
    return equality && ((number && !number_done) || (formula && !formula_done));
  }

  /// Made of numbers, π, e and i alone.
  bool is_of_numbers(const Node& at) const noexcept {
    if (at.parts.empty()) return at.is(Kind::number) || (at.is(Kind::constant) && at.code != 'o' && at.code != '0');
    return !at.is(Kind::relation) &&
           std::ranges::all_of(at.parts, [this](const Node& part) { return is_of_numbers(part); });
  }

  /// Made of numbers, π, e and i alone, with a rational value, degrees counting as numbers.
  bool is_rational_number(const Node& at) {
    constexpr Kind kCollections[] = {Kind::list, Kind::tuple, Kind::set, Kind::set_operation, Kind::matrix};
    constexpr Kind kIrrational[] = {Kind::constant, Kind::root,  Kind::call,    Kind::prime,
                                    Kind::absolute, Kind::floor, Kind::ceiling, Kind::determinant};
    const auto among = [](const auto& kinds, Kind kind) { return std::ranges::find(kinds, kind) != std::end(kinds); };
    if (!is_of_numbers(at) || among(kCollections, at.kind)) return false;
    const bool may_be_irrational = any_node(at, [&](const Node& part) {
      return among(kIrrational, part.kind) || (part.is(Kind::power) && !is_integer(part[1]));
    });
    return !may_be_irrational || has_rational_value(at);  // whatever its size: 64 bits do not bound it
  }

  bool has_rational_value(const Node& at) {
    const Value value = Evaluator(algebra_, budget_).value(at);
    if (budget_.spent() || value.undefined || value.infinite != 0) return false;
    if (value.exact) return true;
    const auto number = value.real();
    constexpr int kMaxDenominator = 100;  // ours: of √2·√2 and log₂8, whose exact value the algebra does not carry
    for (int q = 1; number && std::abs(*number) < 1e12L && q <= kMaxDenominator; ++q) {
      const long double p = std::round(*number * q);
      if (std::abs(p - *number * q) < 1e-9L)
        return equal(value, algebra_.divide(algebra_.integer(static_cast<std::int64_t>(p)), algebra_.integer(q)));
    }
    return false;
  }

  /// Of a rational number: whether it is written as one.
  bool is_one_number(const Node& at) const {
    switch (at.kind) {
      case Kind::number:
      case Kind::subscript:
        return true;
      case Kind::quantity:
      case Kind::percent:
      case Kind::degree:
        return is_one_number(at[0]);
      case Kind::sum:
        return at.parts.size() == 1 && !at[0].is(Kind::sum) && is_one_number(at[0]);
      case Kind::mixed:
        return is_one_number(at[1]);
      case Kind::ratio:
      case Kind::product:
        if (at.parts.size() != 2) return false;
        if (at.is(Kind::ratio) || at[1].joint == '/') return is_lowest_fraction(at[0], at[1]);
        return begins_with_scientific(at);
      default:
        return false;
    }
  }

  bool is_lowest_fraction(const Node& above, const Node& below) const {
    if (!is_integer(above) || !is_integer(below) || (is_negative(above) && is_negative(below))) return false;
    const auto a = size_of(above), b = size_of(below);
    return (!b || *b > 1) && (!a || !b || std::gcd(*a, *b) == 1);
  }

  /// 1.5·10⁶, perhaps before other factors.
  bool begins_with_scientific(const Node& product) const {
    if (product.parts.size() < 2 || product[1].joint != '*') return false;
    const Node& power = product[1];
    return unsigned_of(product[0]).is(Kind::number) && power.is(Kind::power) && size_of(power[0]) == 10 &&
           is_integer(power[1]);
  }

  /// Digits alone, perhaps with a sign.
  bool is_integer(const Node& at) const noexcept { return is_digits(unsigned_of(at)); }
  bool is_negative(const Node& at) const noexcept { return at.is(Kind::sum) && at[0].joint == '-'; }
  /// Of an integer without its sign; nothing of another number or beyond 64 bits.
  std::optional<std::int64_t> size_of(const Node& at) const noexcept { return integer_of(unsigned_of(at)); }

  Algebra algebra_;
  Budget budget_;
};

/// Without the name before a value.
const Node& bare_value(const Node& at) {
  const bool named = at.is(Kind::relation) && at.parts.size() == 2 && at[1].joint == '=' && is_name(at[0]);
  return named ? bare_value(at[1]) : at;
}

/// By the first reading of its commas that there is, without the label of a choice.
const Node* root_of(const Reading& answer) {
  if (answer.labelled() != nullptr) return root_of(*answer.labelled());
  for (const Reading::Read& read : answer.reads())
    if (read.tree.root) return &*read.tree.root;
  return nullptr;
}

}  // namespace

bool is_worked_out(const Reading& answer) {
  const auto root = root_of(answer);
  return !root || !AnswerForm().has_operation_left(*root);
}

bool is_worked_out_as(const Reading& gold, const Reading& answer) {
  if (is_worked_out(answer)) return true;
  const auto of_gold = root_of(gold), of_answer = root_of(answer);
  if (!of_gold) return false;
  if (modulus_of(*of_gold) && modulus_of(*of_answer) && of_answer->is(Kind::product))
    return !AnswerForm().any_left(*of_answer);  // 10 (mod 7) names the class of 3 (mod 7)
  return form_of(bare_value(*of_gold)) == form_of(bare_value(*of_answer));
}

}  // namespace qrl::reward::math

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
  /// The rational numbers among the factors of a product and of the products that are factors of it.
  struct Factors {
    std::vector<const Node*> above, below;  ///< the fraction line
  };

  /// 2·3√2 and 6π/4: the numbers among the factors are one number, above a fraction line, below it, or a fraction.
  bool left_in_product(const Node& at) {
    Factors factors;
    if (collect(at, false, factors)) return true;
    const auto& [above, below] = factors;
    if (above.size() > 1 || below.size() > 1) return true;
    return !below.empty() && !is_lowest_fraction(above.empty() ? nullptr : above[0], *below[0]);
  }

  /// Whether a factor has an operation left.
  bool collect(const Node& at, bool inverse, Factors& factors) {
    const bool scientific = begins_with_scientific(at);
    if (scientific) (inverse ? factors.below : factors.above).push_back(&at[0]);
    return std::ranges::any_of(at.rest(scientific ? 2 : 0), [&](const Node& part) {
      const bool below = (part.joint == '/') != inverse,
                 is_factor = part.joint == '/' || part.joint == 0 || part.joint == '*';
      if (is_factor && is_rational(part)) (below ? factors.below : factors.above).push_back(&part);
      else if (is_factor && part.is(Kind::product)) return collect(part, below, factors);
      return has_operation_left(part);
    });
  }

  /// Of x = 25 + 60 = 85 the number counts that is worked out; of other relations every side.
  bool left_in_relation(const Node& at) {
    const bool equality =
        std::ranges::all_of(at.rest(), [](const Node& side) { return side.joint == '=' || side.joint == 'a'; });
    bool found[2] = {}, done[2] = {};  // of formulas and of numbers
    for (const Node& side : at.parts) {
      const bool left = modulus_of(side) ? any_left(side) : has_operation_left(side);  // x ≡ 10 (mod 7) names a class
      const bool formula = has_symbols(side);
      if (!equality && left) return true;
      if (formula && is_name(side)) continue;
      found[formula] = true;
      done[formula] = done[formula] || !left;
    }
    return found[0] != done[0] || found[1] != done[1];
  }

  /// Whether its value is a rational number, degrees counting as numbers.
  bool is_rational(const Node& at) {
    if (at.is(Kind::degree)) return is_rational(at[0]);
    if (at.is(Kind::number)) return true;
    if (has_symbols(at)) return false;
    const Value value = Evaluator(algebra_, budget_).value(at);
    if (budget_.spent() || !value.constant || !value.is_number()) return false;
    const bool has_constants =
        any_node(at, [](const Node& part) { return part.is(Kind::constant); });  // π has an image
    if (value.exact || (value.image && !has_constants)) return true;
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
        if (at.is(Kind::ratio) || at[1].joint == '/') return is_lowest_fraction(&at[0], at[1]);
        return begins_with_scientific(at);
      default:
        return false;
    }
  }

  /// Of integers; nothing above the line stands for 1.
  bool is_lowest_fraction(const Node* above, const Node& below) const {
    if (!is_integer(below) || (above && (!is_integer(*above) || (is_negative(*above) && is_negative(below)))))
      return false;
    const auto a = above ? size_of(*above) : 1, b = size_of(below);
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

/// By the first reading of its commas that there is.
const Node* root_of(const Reading& answer) {
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

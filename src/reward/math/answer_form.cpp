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
  /// `tree` must outlive it.
  explicit AnswerForm(const Tree& tree) noexcept : tree_(tree) {}

  bool has_operation_left(NodeIdx idx) {
    if (is_rational_number(idx)) return !is_one_number(idx);
    const Node& node = at(idx);
    if (node.kind == Kind::product) return left_in_product(node);
    if (node.kind == Kind::relation) return left_in_relation(node);
    const auto is_number = [this](Link term) { return is_rational_number(term.node); };
    return (node.kind == Kind::sum && std::ranges::count_if(tree_.of(node), is_number) > 1) || any_left(node);
  }
  bool any_left(const Node& node) {
    return std::ranges::any_of(tree_.of(node), [this](Link link) { return has_operation_left(link.node); });
  }

 private:
  const Node& at(NodeIdx idx) const noexcept { return tree_.at(idx); }

  /// The rational numbers among the factors of a product and of the products that are factors of it.
  struct Factors {
    std::vector<NodeIdx> above, below;
  };

  /// 2·3√2 and 6π/4: the numbers among the factors are one number, above a fraction line, below it, or a fraction.
  bool left_in_product(const Node& node) {
    Factors factors;
    if (collect(node, false, factors)) return true;
    const auto& [above, below] = factors;
    if (above.size() > 1 || below.size() > 1) return true;
    if (below.empty()) return false;
    if (!above.empty()) return !is_lowest_fraction(above[0], below[0]);
    return !is_integer(below[0]) || size_of(below[0]) == 1;
  }

  /// Whether a factor has an operation left.
  bool collect(const Node& node, bool inverse, Factors& factors) {
    const bool scientific = begins_with_scientific(node);
    if (scientific) (inverse ? factors.below : factors.above).push_back(tree_.child(node, 0));
    for (const Link link : tree_.of(node).subspan(scientific ? 2 : 0)) {
      const bool divides = link.code == '/', is_factor = divides || link.code == 0 || link.code == '*';
      const bool rational = is_rational_number(link.node);
      if (is_factor && !rational && at(link.node).kind == Kind::product) {
        if (collect(at(link.node), divides != inverse, factors)) return true;
        continue;
      }
      if (has_operation_left(link.node)) return true;
      if (is_factor && rational) (divides != inverse ? factors.below : factors.above).push_back(link.node);
    }
    return false;
  }

  /// Of x = 25 + 60 = 85 the number counts that is worked out; of other relations every side.
  bool left_in_relation(const Node& node) {
    const bool equality =
        std::ranges::all_of(tree_.of(node).subspan(1), [](Link l) { return l.code == '=' || l.code == 'a'; });
    bool number = false, number_done = false, formula = false, formula_done = false;
    for (const auto& [side, code] : tree_.of(node)) {
      const bool modulo = modulus_of(tree_, side) >= 0;  // x ≡ 10 (mod 7) names a class
      const bool left = modulo ? any_left(at(side)) : has_operation_left(side);
      const bool of_numbers = is_of_numbers(side);
      if (!equality && left) return true;
      if (!of_numbers && is_name(tree_, side)) continue;
      (of_numbers ? number : formula) = true;
      if (!left) (of_numbers ? number_done : formula_done) = true;
    }
    return equality && ((number && !number_done) || (formula && !formula_done));
  }

  /// Made of numbers, π, e and i alone.
  bool is_of_numbers(NodeIdx idx) const noexcept {
    const Node& node = at(idx);
    if (node.count == 0)
      return node.kind == Kind::number || (node.kind == Kind::constant && node.code != 'o' && node.code != '0');
    return node.kind != Kind::relation &&
           std::ranges::all_of(tree_.of(node), [this](Link link) { return is_of_numbers(link.node); });
  }

  bool is_rational_number(NodeIdx idx) { return is_of_numbers(idx) && is_rational(idx); }

  /// Of what is_of_numbers: whether its value is rational, degrees counting as numbers.
  bool is_rational(NodeIdx idx) {
    constexpr Kind kCollections[] = {Kind::list, Kind::tuple, Kind::set, Kind::set_operation, Kind::matrix};
    constexpr Kind kIrrational[] = {Kind::constant, Kind::root,  Kind::call,    Kind::prime,
                                    Kind::absolute, Kind::floor, Kind::ceiling, Kind::determinant};
    const auto among = [](const auto& kinds, Kind kind) { return std::ranges::find(kinds, kind) != std::end(kinds); };
    const Node& node = at(idx);
    if (among(kCollections, node.kind)) return false;
    const bool may_be_irrational = any_node(tree_, idx, [&](const Node& part) {
      return among(kIrrational, part.kind) || (part.kind == Kind::power && !is_integer(tree_.child(part, 1)));
    });
    return !may_be_irrational || has_rational_value(idx);  // whatever its size: 64 bits do not bound it
  }

  bool has_rational_value(NodeIdx idx) {
    const Value value = Evaluator(tree_, algebra_, budget_).value(idx);
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
  bool is_one_number(NodeIdx idx) const {
    const Node& node = at(idx);
    switch (node.kind) {
      case Kind::number:
      case Kind::subscript:
        return true;
      case Kind::quantity:
      case Kind::percent:
      case Kind::degree:
        return is_one_number(tree_.child(node, 0));
      case Kind::sum:
        return node.count == 1 && tree_.child_at(node, 0).kind != Kind::sum && is_one_number(tree_.child(node, 0));
      case Kind::mixed:
        return is_one_number(tree_.child(node, 1));
      case Kind::ratio:
      case Kind::product:
        if (node.count != 2) return false;
        if (node.kind == Kind::ratio || tree_.link(node, 1).code == '/')
          return is_lowest_fraction(tree_.child(node, 0), tree_.child(node, 1));
        return begins_with_scientific(node);
      default:
        return false;
    }
  }

  bool is_lowest_fraction(NodeIdx above, NodeIdx below) const {
    if (!is_integer(above) || !is_integer(below) || (is_negative(above) && is_negative(below))) return false;
    const auto a = size_of(above), b = size_of(below);
    return (!b || *b > 1) && (!a || !b || std::gcd(*a, *b) == 1);
  }

  /// 1.5·10⁶, perhaps before other factors.
  bool begins_with_scientific(const Node& product) const {
    if (product.count < 2 || tree_.link(product, 1).code != '*') return false;
    const Node& power = tree_.child_at(product, 1);
    return unsigned_of(tree_, tree_.child_at(product, 0)).kind == Kind::number && power.kind == Kind::power &&
           size_of(tree_.child(power, 0)) == 10 && is_integer(tree_.child(power, 1));
  }

  /// Digits alone, perhaps with a sign.
  bool is_integer(NodeIdx idx) const noexcept { return is_digits(unsigned_of(tree_, at(idx))); }
  bool is_negative(NodeIdx idx) const noexcept {
    return at(idx).kind == Kind::sum && tree_.link(at(idx), 0).code == '-';
  }
  /// Of an integer without its sign; nothing of another number or beyond 64 bits.
  std::optional<std::int64_t> size_of(NodeIdx idx) const noexcept { return integer_of(unsigned_of(tree_, at(idx))); }

  const Tree& tree_;
  Algebra algebra_;
  Budget budget_;
};

/// Without the name before a value.
NodeIdx bare_value(const Tree& tree, NodeIdx idx) {
  const Node& node = tree.at(idx);
  const bool named = node.kind == Kind::relation && node.count == 2 && tree.link(node, 1).code == '=' &&
                     is_name(tree, tree.child(node, 0));
  return named ? bare_value(tree, tree.child(node, 1)) : idx;
}

/// By the first reading of its commas that there is, without the label of a choice; null: none.
const Tree* tree_of(const Reading& answer) {
  if (answer.labelled() != nullptr) return tree_of(*answer.labelled());
  for (const Comma comma : {Comma::thousands, Comma::separator, Comma::decimal})
    if (answer.tree(comma).root >= 0) return &answer.tree(comma);
  return nullptr;
}

}  // namespace

bool is_worked_out(const Reading& answer) {
  const Tree* tree = tree_of(answer);
  return tree == nullptr || !AnswerForm(*tree).has_operation_left(tree->root);
}

bool is_worked_out_as(const Reading& gold, const Reading& answer) {
  if (is_worked_out(answer)) return true;
  const Tree *of_gold = tree_of(gold), *of_answer = tree_of(answer);
  if (of_gold == nullptr) return false;
  const Node& root = of_answer->at(of_answer->root);
  if (modulus_of(*of_gold, of_gold->root) >= 0 && modulus_of(*of_answer, of_answer->root) >= 0 &&
      root.kind == Kind::product)
    return !AnswerForm(*of_answer).any_left(root);  // 10 (mod 7) names the class of 3 (mod 7)
  return form_of(*of_gold, bare_value(*of_gold, of_gold->root)) ==
         form_of(*of_answer, bare_value(*of_answer, of_answer->root));
}

}  // namespace qrl::reward::math

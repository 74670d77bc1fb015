#include "reward/math/answer_form.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

namespace {

class AnswerForm {
 public:
  /// `tree` must outlive it.
  explicit AnswerForm(const Tree& tree) noexcept : tree_(tree) {}

  bool has_operation_left(NodeIdx idx);
  bool has_operation_in_parts(NodeIdx idx) { return any_left(at(idx)); }

 private:
  const Node& at(NodeIdx idx) const noexcept { return tree_.at(idx); }
  bool any_left(const Node& node);
  bool left_in_sum(const Node& node);
  bool left_in_product(const Node& node);
  /// The rational numbers among the factors of a product and of the products that are factors of it.
  struct Factors {
    std::vector<NodeIdx> above, below;
  };
  /// Whether a factor has an operation left.
  bool collect(const Node& node, bool inverse, Factors& factors);
  bool left_in_relation(const Node& node);
  /// Made of numbers, π, e and i alone.
  bool is_of_numbers(NodeIdx idx) const noexcept;
  /// Of what is_of_numbers: whether its value is rational, degrees counting as numbers.
  bool is_rational(NodeIdx idx);
  /// The same by computing it.
  bool has_rational_value(NodeIdx idx);
  bool is_rational_number(NodeIdx idx) { return is_of_numbers(idx) && is_rational(idx); }
  /// Of a rational number: whether it is written as one.
  bool is_one_number(NodeIdx idx) const;
  bool is_lowest_fraction(NodeIdx above, NodeIdx below) const;
  bool begins_with_scientific(const Node& product) const;
  bool is_residue(const Node& product) const;
  /// Digits alone, perhaps with a sign.
  bool is_integer(NodeIdx idx) const noexcept;
  bool is_negative(NodeIdx idx) const noexcept {
    return at(idx).kind == Kind::sum && tree_.link(at(idx), 0).code == '-';
  }
  /// Of an integer without its sign; nothing beyond 64 bits.
  std::optional<std::int64_t> size_of(NodeIdx idx) const noexcept;

  const Tree& tree_;
  Algebra algebra_;
  Budget budget_;
};

bool AnswerForm::has_operation_left(NodeIdx idx) {
  if (is_rational_number(idx)) return !is_one_number(idx);
  const Node& node = at(idx);
  switch (node.kind) {
    case Kind::sum:
      return left_in_sum(node);
    case Kind::product:
      return left_in_product(node);
    case Kind::relation:
      return left_in_relation(node);
    default:
      return any_left(node);
  }
}

bool AnswerForm::any_left(const Node& node) {
  for (std::int32_t k = 0; k < node.count; ++k) {
    if (has_operation_left(tree_.child(node, k))) return true;
  }
  return false;
}

/// x + 1 + 2: two numbers among the terms can be added.
bool AnswerForm::left_in_sum(const Node& node) {
  int num_rational = 0;
  for (std::int32_t k = 0; k < node.count; ++k) num_rational += is_rational_number(tree_.child(node, k)) ? 1 : 0;
  return num_rational > 1 || any_left(node);
}

/// 2·3√2 and 6π/4: the numbers among the factors are one number, above a fraction line, below it, or a fraction.
bool AnswerForm::left_in_product(const Node& node) {
  Factors factors;
  if (collect(node, false, factors)) return true;
  const auto& [above, below] = factors;
  if (above.size() > 1 || below.size() > 1) return true;
  if (below.empty()) return false;
  if (!above.empty()) return !is_lowest_fraction(above[0], below[0]);
  return !is_integer(below[0]) || size_of(below[0]) == 1;
}

bool AnswerForm::collect(const Node& node, bool inverse, Factors& factors) {
  std::int32_t k = 0;
  if (begins_with_scientific(node)) {
    (inverse ? factors.below : factors.above).push_back(tree_.child(node, 0));
    k = 2;
  }
  for (; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
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
bool AnswerForm::left_in_relation(const Node& node) {
  bool equality = true;
  for (std::int32_t k = 1; k < node.count; ++k) {
    const char code = tree_.link(node, k).code;
    equality = equality && (code == '=' || code == 'a');
  }
  bool number = false, number_done = false, formula = false, formula_done = false;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const NodeIdx side = tree_.child(node, k);
    const Node& of = at(side);
    const bool modulo = of.kind == Kind::product && of.count == 2 && tree_.link(of, 1).code == 'm';
    const bool left = modulo ? any_left(of) : has_operation_left(side);  // x ≡ 10 (mod 7) names a class
    const bool of_numbers = is_of_numbers(side);
    if (!equality && left) return true;
    if (!of_numbers && is_name(tree_, side)) continue;
    (of_numbers ? number : formula) = true;
    if (!left) (of_numbers ? number_done : formula_done) = true;
  }
  return equality && ((number && !number_done) || (formula && !formula_done));
}

bool AnswerForm::is_of_numbers(NodeIdx idx) const noexcept {
  const Node& node = at(idx);
  switch (node.kind) {
    case Kind::number:
      return true;
    case Kind::constant:
      return node.text == "pi" || node.text == "e" || node.text == "i";
    case Kind::symbol:
    case Kind::words:
    case Kind::dots:
    case Kind::relation:
      return false;
    case Kind::quantity:
      return is_of_numbers(tree_.child(node, 0));
    default:
      for (std::int32_t k = 0; k < node.count; ++k) {
        if (!is_of_numbers(tree_.child(node, k))) return false;
      }
      return node.count > 0;
  }
}

bool AnswerForm::is_rational(NodeIdx idx) {
  const Node& node = at(idx);
  bool parts = true;  // whether all are rational
  switch (node.kind) {
    case Kind::number:
      return true;
    case Kind::quantity:
    case Kind::percent:
    case Kind::degree:
      return is_rational(tree_.child(node, 0));
    case Kind::subscript:
      return tree_.child_at(node, 0).kind == Kind::number && tree_.child_at(node, 1).kind == Kind::number;
    case Kind::ratio:
      if (node.count > 2) return false;
      break;
    case Kind::power:
      parts = is_integer(tree_.child(node, 1));
      break;
    case Kind::product:
      for (std::int32_t k = 1; k < node.count; ++k) {
        const char code = tree_.link(node, k).code;
        parts = parts && (code == '*' || code == '/' || code == 'm');
      }
      break;
    case Kind::sum:
    case Kind::mixed:
    case Kind::factorial:
    case Kind::binomial:
      break;
    case Kind::root:
    case Kind::call:
    case Kind::absolute:
    case Kind::floor:
    case Kind::ceiling:
    case Kind::determinant:
      parts = false;
      break;
    default:
      return false;
  }
  for (std::int32_t k = 0; k < node.count && parts; ++k) parts = is_rational(tree_.child(node, k));
  if (parts) return true;  // whatever its size: 64 bits do not bound it
  return has_rational_value(idx);
}

bool AnswerForm::has_rational_value(NodeIdx idx) {
  const Value value = Evaluator(tree_, algebra_, budget_).value(idx);
  if (budget_.spent() || value.undefined || value.infinite != 0) return false;
  if (value.exact) return value.is_rational();
  const auto number = value.real();
  constexpr int kMaxDenominator = 100;  // ours: of √2·√2 and log₂8, whose exact value the algebra does not carry
  for (int q = 1; number && std::abs(*number) < 1e12L && q <= kMaxDenominator; ++q) {
    const long double p = std::round(*number * q);
    if (std::abs(p - *number * q) < 1e-9L)
      return equal(value, algebra_.divide(algebra_.integer(static_cast<std::int64_t>(p)), algebra_.integer(q)));
  }
  return false;
}

bool AnswerForm::is_one_number(NodeIdx idx) const {
  const Node& node = at(idx);
  switch (node.kind) {
    case Kind::number:
    case Kind::subscript:
      return true;
    case Kind::quantity:
      return is_one_number(tree_.child(node, 0));
    case Kind::percent:
    case Kind::degree:
      return is_one_number(tree_.child(node, 0));
    case Kind::sum:
      return node.count == 1 && tree_.child_at(node, 0).kind != Kind::sum && is_one_number(tree_.child(node, 0));
    case Kind::mixed:
      return is_one_number(tree_.child(node, 1));
    case Kind::ratio:
      return is_lowest_fraction(tree_.child(node, 0), tree_.child(node, 1));
    case Kind::product:
      if (node.count != 2) return false;
      if (tree_.link(node, 1).code == '/') return is_lowest_fraction(tree_.child(node, 0), tree_.child(node, 1));
      return begins_with_scientific(node) || is_residue(node);
    default:
      return false;
  }
}

bool AnswerForm::is_lowest_fraction(NodeIdx above, NodeIdx below) const {
  if (!is_integer(above) || !is_integer(below) || (is_negative(above) && is_negative(below))) return false;
  const auto a = size_of(above), b = size_of(below);
  if (b && *b <= 1) return false;
  return !a || !b || std::gcd(*a, *b) == 1;
}

/// 1.5·10⁶, perhaps before other factors.
bool AnswerForm::begins_with_scientific(const Node& product) const {
  if (product.count < 2 || tree_.link(product, 1).code != '*') return false;
  const Node& factor = tree_.child_at(product, 0);
  const bool number = factor.kind == Kind::number ||
                      (factor.kind == Kind::sum && factor.count == 1 && tree_.child_at(factor, 0).kind == Kind::number);
  const Node& power = tree_.child_at(product, 1);
  return number && power.kind == Kind::power && tree_.child_at(power, 0).kind == Kind::number &&
         tree_.child_at(power, 0).text == "10" && is_integer(tree_.child(power, 1));
}

/// 3 mod 7, but not 10 mod 7.
bool AnswerForm::is_residue(const Node& product) const {
  const NodeIdx number = tree_.child(product, 0), modulus = tree_.child(product, 1);
  if (tree_.link(product, 1).code != 'm' || !is_integer(number) || !is_integer(modulus)) return false;
  const auto a = size_of(number), m = size_of(modulus);
  return a && m && *a < *m && !is_negative(number);
}

bool AnswerForm::is_integer(NodeIdx idx) const noexcept {
  const Node& node = at(idx);
  if (node.kind == Kind::sum)
    return node.count == 1 && tree_.child_at(node, 0).kind == Kind::number && is_integer(tree_.child(node, 0));
  return node.kind == Kind::number &&
         std::all_of(node.text.begin(), node.text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::int64_t> AnswerForm::size_of(NodeIdx idx) const noexcept {
  const Node& node = at(idx);
  const std::string_view digits = node.kind == Kind::sum ? tree_.child_at(node, 0).text : node.text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

/// Without the name before a value and the unit behind it.
NodeIdx bare_value(const Tree& tree, NodeIdx idx) {
  const Node& node = tree.at(idx);
  if (node.kind == Kind::quantity) return bare_value(tree, tree.child(node, 0));
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
  const Node &root = of_answer->at(of_answer->root), &gold_root = of_gold->at(of_gold->root);
  if (root.kind == Kind::ratio && gold_root.kind == Kind::ratio)
    return form_of(*of_gold, of_gold->root) == form_of(*of_answer, of_answer->root);
  if (modulus_of(*of_gold, of_gold->root) >= 0 && modulus_of(*of_answer, of_answer->root) >= 0 &&
      root.kind == Kind::product)
    return !AnswerForm(*of_answer).has_operation_in_parts(of_answer->root);  // 10 (mod 7) names the class of 3 (mod 7)
  return form_of(*of_gold, bare_value(*of_gold, of_gold->root)) ==
         form_of(*of_answer, bare_value(*of_answer, of_answer->root));
}

}  // namespace qrl::reward::math

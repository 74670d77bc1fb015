#include "reward/math/cleared.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "reward/math/forms.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxDenominators = 16;
constexpr std::int64_t kMaxExponent = 12;

struct Fraction {
  Value above, under;
};

/// An exponent written as an integer, with or without a sign.
std::optional<std::int64_t> integer_exponent(const Tree& tree, NodeIdx idx) noexcept {
  const Node* node = &tree.at(idx);
  bool negative = false;
  if (node->kind == Kind::sum && node->count == 1) {
    negative = tree.link(*node, 0).code == '-';
    node = &tree.child_at(*node, 0);
  }
  std::int64_t n = 0;
  const char* const end = node->text.data() + node->text.size();
  if (node->kind != Kind::number || std::from_chars(node->text.data(), end, n).ptr != end) return std::nullopt;
  return n > kMaxExponent ? std::nullopt : std::optional(negative ? -n : n);
}

/// Constant in the variables: lanes 0 and 1 are the same field under two assignments.
bool is_constant(const Value& value) noexcept { return value.f[0] == value.f[1]; }

class Clearing {
 public:
  Clearing(const Tree& tree, NodeIdx left, NodeIdx right, Algebra& algebra, Budget& budget) noexcept
      : tree_(tree), left_(left), right_(right), algebra_(algebra), budget_(budget) {}

  std::optional<ClearedEquation> run() {
    const Value numerator = numerator_where("", algebra_.integer(0));
    first_ = false;
    if (failed_ || numerator.undefined || numerator.is_zero() || denominators_.size() > kMaxDenominators)
      return std::nullopt;
    for (const NodeIdx denominator : denominators_) {
      if (!holds_off(denominator)) return std::nullopt;
    }
    return ClearedEquation{numerator, !denominators_.empty()};
  }

 private:
  /// left − right without its denominators, with a variable of that name at a value.
  Value numerator_where(std::string_view variable, const Value& value) {
    Evaluator evaluator(tree_, algebra_, budget_);
    evaluator.assign(variable, value);
    evaluator_ = &evaluator;
    next_ = 0;
    Fraction left = read(left_);
    add(left, read(right_), true);
    return left.above;
  }

  /// Whether two denominators are one is decided with all variables at large, so that the numerator is the same
  /// polynomial wherever it is evaluated.
  bool same_under(const Value& x, const Value& y) {
    if (first_) same_under_.push_back(equal(x, y));
    return same_under_[next_++];
  }
  void add(Fraction& sum, const Fraction& term, bool minus) {
    const bool same = same_under(sum.under, term.under);
    if (!same) sum.above = algebra_.multiply(sum.above, term.under);
    const Value above = same ? term.above : algebra_.multiply(term.above, sum.under);
    sum.above = minus ? algebra_.subtract(sum.above, above) : algebra_.add(sum.above, above);
    if (!same) sum.under = algebra_.multiply(sum.under, term.under);
  }
  void divides(NodeIdx idx) {
    if (first_ && has_symbols(tree_, idx)) denominators_.push_back(idx);
  }

  Fraction read(NodeIdx idx) {
    const Node& node = tree_.at(idx);
    if (node.kind == Kind::sum) {
      Fraction sum{algebra_.integer(0), algebra_.integer(1)};
      for (std::int32_t k = 0; k < node.count; ++k) {
        const Link link = tree_.link(node, k);
        failed_ = failed_ || link.code == 'P' || link.code == 'M';
        add(sum, read(link.node), link.code == '-');
      }
      return sum;
    }
    if (node.kind == Kind::product) {
      Fraction product = read(tree_.child(node, 0));
      for (std::int32_t k = 1; k < node.count; ++k) {
        const Link link = tree_.link(node, k);
        failed_ = failed_ || (link.code != '*' && link.code != '/');
        if (link.code == '/') divides(link.node);
        Fraction factor = read(link.node);
        if (link.code == '/') std::swap(factor.above, factor.under);
        product = {algebra_.multiply(product.above, factor.above), algebra_.multiply(product.under, factor.under)};
      }
      return product;
    }
    const auto exponent = node.kind == Kind::power ? integer_exponent(tree_, tree_.child(node, 1)) : std::nullopt;
    if (!exponent) {
      failed_ = failed_ || (node.kind != Kind::symbol && has_symbols(tree_, idx));
      return {evaluator_->value(idx), algebra_.integer(1)};
    }
    if (*exponent < 0) divides(tree_.child(node, 0));
    Fraction base = read(tree_.child(node, 0));
    if (*exponent < 0) std::swap(base.above, base.under);
    const Value n = algebra_.integer(*exponent < 0 ? -*exponent : *exponent);
    return {algebra_.power(base.above, n), algebra_.power(base.under, n)};
  }

  /// Whether the equation holds nowhere that a denominator, or a factor of one, is zero.
  bool holds_off(NodeIdx denominator) {
    const Node& node = tree_.at(denominator);
    if (!has_symbols(tree_, denominator)) return true;
    if (node.kind == Kind::product) {  // what it is itself divided by is a denominator of its own
      for (std::int32_t k = 0; k < node.count; ++k) {
        if (tree_.link(node, k).code != '/' && !holds_off(tree_.child(node, k))) return false;
      }
      return true;
    }
    if (node.kind == Kind::power) return holds_off(tree_.child(node, 0));
    std::vector<std::string_view> variables;
    collect_symbols(denominator, variables);
    for (const std::string_view variable : variables) {
      if (const auto root = root_in(variable, denominator)) {
        const Value there = numerator_where(variable, *root);
        return !there.undefined && !there.is_zero() && is_constant(there);
      }
    }
    return false;
  }

  void collect_symbols(NodeIdx idx, std::vector<std::string_view>& names) const {
    const Node& node = tree_.at(idx);
    if (node.kind == Kind::symbol && std::find(names.begin(), names.end(), node.text) == names.end())
      names.push_back(node.text);
    for (std::int32_t k = 0; k < node.count; ++k) collect_symbols(tree_.child(node, k), names);
  }

  /// Where a·x + b with a constant a is zero.
  std::optional<Value> root_in(std::string_view variable, NodeIdx idx) {
    std::vector<Value> at;
    for (std::int64_t n = 0; n < 3; ++n) {
      const Value value = algebra_.integer(n);
      Evaluator evaluator(tree_, algebra_, budget_);
      evaluator.assign(variable, value);
      at.push_back(evaluator.value(idx));
      if (at.back().undefined) return std::nullopt;
    }
    const Value slope = algebra_.subtract(at[1], at[0]);
    const bool linear = equal(algebra_.subtract(at[2], at[1]), slope);
    if (!linear || slope.is_zero() || !is_constant(slope)) return std::nullopt;
    return algebra_.divide(algebra_.negate(at[0]), slope);
  }

  const Tree& tree_;
  NodeIdx left_, right_;
  Algebra& algebra_;
  Budget& budget_;
  Evaluator* evaluator_ = nullptr;
  std::vector<NodeIdx> denominators_;
  std::vector<bool> same_under_;
  std::size_t next_ = 0;
  bool first_ = true, failed_ = false;
};

}  // namespace

std::optional<ClearedEquation> clear_denominators(const Tree& tree, NodeIdx left, NodeIdx right, Algebra& algebra,
                                                  Budget& budget) {
  auto cleared = Clearing(tree, left, right, algebra, budget).run();
  return budget.spent() ? std::nullopt : cleared;
}

}  // namespace qrl::reward::math

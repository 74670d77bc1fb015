#include "reward/math/real_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reward/math/tree.h"

namespace qrl::reward::math {

namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

bool same(const Endpoint& a, const Endpoint& b) noexcept { return equal(a.value, b.value); }

/// Whether `a` begins before `b` does.
bool begins_before(const Interval& a, const Interval& b) noexcept {
  if (!same(a.low, b.low)) return a.low.real < b.low.real;
  return a.low.closed && !b.low.closed;
}

}  // namespace

std::optional<Endpoint> endpoint(const Value& value, bool closed) {
  if (value.infinite != 0) return Endpoint{value, value.infinite > 0 ? kInfinity : -kInfinity, false};
  const auto real = value.real();
  if (!real) return std::nullopt;
  return Endpoint{value, *real, closed};
}

RealSet all_reals(const Algebra& algebra) {
  return {{*endpoint(algebra.infinity(-1), false), *endpoint(algebra.infinity(1), false)}};
}

RealSet unite(RealSet a, const RealSet& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::stable_sort(a.begin(), a.end(), begins_before);
  RealSet out;
  for (const Interval& next : a) {
    if (out.empty()) {
      out.push_back(next);
      continue;
    }
    Endpoint& high = out.back().high;
    const bool meet = same(high, next.low);
    if (!(meet ? high.closed || next.low.closed : next.low.real < high.real)) {
      out.push_back(next);
    } else if (same(high, next.high)) {
      high.closed = high.closed || next.high.closed;
    } else if (next.high.real > high.real) {
      high = next.high;
    }
  }
  return out;
}

RealSet complement(const Algebra& algebra, const RealSet& a) {
  RealSet out;
  Endpoint low = *endpoint(algebra.infinity(-1), false);
  const Endpoint last = *endpoint(algebra.infinity(1), false);
  for (const Interval& interval : a) {
    Endpoint high = interval.low;
    high.closed = !high.closed && high.value.infinite == 0;
    const bool point = same(low, high);
    if (!point || (low.closed && high.closed)) out.push_back({low, high});
    low = interval.high;
    low.closed = !low.closed && low.value.infinite == 0;
  }
  if (!same(low, last)) out.push_back({low, last});
  return out;
}

RealSet intersect(const Algebra& algebra, const RealSet& a, const RealSet& b) {
  return complement(algebra, unite(complement(algebra, a), complement(algebra, b)));
}

bool equal(const RealSet& a, const RealSet& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Interval& x, const Interval& y) {
    return same(x.low, y.low) && same(x.high, y.high) && x.low.closed == y.low.closed && x.high.closed == y.high.closed;
  });
}

namespace {

/// x < bound and the like; with `magnitude`, |x| < bound.
std::optional<RealSet> half_line(const Value& bound, char code, bool magnitude, const Algebra& algebra) {
  const bool closed = code == 'l' || code == 'g' || code == '=' || code == 'n';
  const auto end = endpoint(bound, closed);
  if (!end) return std::nullopt;
  const Endpoint low = *endpoint(algebra.infinity(-1), false);
  const Endpoint high = *endpoint(algebra.infinity(1), false);
  if (magnitude) {  // |x| < a with a > 0
    const auto other = endpoint(algebra.negate(bound), closed);
    if (!other || end->real <= 0 || (code != '<' && code != 'l' && code != '>' && code != 'g')) return std::nullopt;
    const RealSet inner{{*other, *end}};
    if (code == '<' || code == 'l') return inner;
    return unite({{low, *other}}, {{*end, high}});
  }
  switch (code) {
    case '<':
    case 'l':
      return RealSet{{low, *end}};
    case '>':
    case 'g':
      return RealSet{{*end, high}};
    case '=':
      return RealSet{{*end, *end}};
    case 'n':
      return complement(algebra, {{*end, *end}});
    default:
      return std::nullopt;
  }
}

class Reader {
 public:
  Reader(const Tree& tree, Evaluator& evaluator) noexcept : tree_(tree), evaluator_(evaluator) {}

  /// Depth: kMaxTreeDepth.
  std::optional<RealSet> read(NodeIdx idx) {
    const Node& node = tree_.at(idx);
    switch (node.kind) {
      case Kind::tuple: {
        if (node.count != 2) return std::nullopt;
        const auto low = endpoint(evaluator_.value(tree_.child(node, 0)), node.open == '[');
        const auto high = endpoint(evaluator_.value(tree_.child(node, 1)), node.close == ']');
        if (!low || !high || low->real >= high->real) return std::nullopt;
        return RealSet{{*low, *high}};
      }
      case Kind::set:
        return points(node);
      case Kind::constant:
        return node.code == '0' ? std::optional(RealSet{}) : std::nullopt;
      case Kind::symbol:
        if (!is_reals(node)) return std::nullopt;
        return all_reals(algebra_);
      case Kind::subscript:
        return part_of_reals(node);
      case Kind::sum:
        return difference(node);
      case Kind::set_builder:
        return described(node);
      case Kind::list:
        return conditions(node);
      case Kind::set_operation:
        return operation(node);
      case Kind::relation:
        return relation(node);
      default:
        return std::nullopt;
    }
  }

 private:
  static bool is_reals(const Node& node) noexcept {
    return node.text.starts_with("\\mathbb") && node.text.find('R') != std::string_view::npos;
  }
  bool is_variable(NodeIdx idx) const noexcept { return tree_.at(idx).kind != Kind::product && is_name(tree_, idx); }
  static constexpr std::int32_t kMaxParts = 64;  // of a union or of conditions, each of which goes over all before it

  std::optional<RealSet> points(const Node& node) {
    RealSet set;
    for (std::int32_t k = 0; k < node.count; ++k) {
      const NodeIdx member = tree_.child(node, k);
      if (has_plus_minus(tree_, member) || tree_.at(member).kind == Kind::constant) return std::nullopt;
      const auto point = endpoint(evaluator_.value(member), true);
      if (!point || point->value.infinite != 0) return std::nullopt;
      set.push_back({*point, *point});
    }
    return unite(std::move(set), {});
  }

  /// \mathbb{R}^+, \mathbb{R}_{\ge 0}.
  std::optional<RealSet> part_of_reals(const Node& node) {
    const Node& base = tree_.child_at(node, 0);
    const Node& index = tree_.child_at(node, 1);
    if (base.kind != Kind::symbol || !is_reals(base)) return std::nullopt;
    if (index.kind == Kind::words && (index.text == "plus" || index.text == "minus")) {
      return half_line(algebra_.integer(0), index.text == "plus" ? '>' : '<', false, algebra_);
    }
    if (index.kind != Kind::subscript) return std::nullopt;  // relation and bound
    const std::string_view word = tree_.child_at(index, 1).text;
    const char code = word == "above" ? '>' : word == "from" ? 'g' : word == "below" ? '<' : '\0';
    return half_line(evaluator_.value(tree_.child(index, 0)), code, false, algebra_);
  }

  /// \mathbb{R} - \{0\}.
  std::optional<RealSet> difference(const Node& node) {
    if (node.count != 2 || tree_.link(node, 1).code != '-') return std::nullopt;
    const auto from = read(tree_.child(node, 0));
    const Kind kind = tree_.child_at(node, 1).kind;
    const auto without = kind == Kind::set || kind == Kind::tuple ? read(tree_.child(node, 1)) : std::nullopt;
    if (!from || !without) return std::nullopt;
    return intersect(algebra_, *from, complement(algebra_, *without));
  }

  /// {x | x > 1}, {x ∈ ℝ | x > 1}: of numbers of another kind nothing is known.
  std::optional<RealSet> described(const Node& node) {
    const Node& element = tree_.child_at(node, 0);
    const Node& variable = element.kind == Kind::relation ? tree_.child_at(element, 0) : element;
    if (variable.kind != Kind::symbol || !has_symbol(tree_, tree_.child(node, 1), variable.text)) return std::nullopt;
    auto set = read(tree_.child(node, 1));
    if (element.kind == Kind::symbol || !set) return set;
    const auto domain = element.kind == Kind::relation ? read(tree_.child(node, 0)) : std::nullopt;
    return domain ? std::optional(intersect(algebra_, *domain, *set)) : std::nullopt;
  }

  /// x > 1, x < 2 are both meant; x < 1, x > 2 cannot be, so that either is.
  std::optional<RealSet> conditions(const Node& node) {
    if (node.count > kMaxParts) return std::nullopt;
    if (tree_.child_at(node, 0).kind == Kind::tuple) return intervals(node);
    RealSet either, both = all_reals(algebra_);
    bool alternatives = false;  // "or" stands between two of them
    for (std::int32_t k = 0; k < node.count; ++k) {
      const NodeIdx member = tree_.child(node, k);
      if (tree_.at(member).kind != Kind::relation) return std::nullopt;
      if (variables_of(tree_, tree_.child(node, 0)) != variables_of(tree_, member)) return std::nullopt;
      const auto next = read(member);
      if (!next) return std::nullopt;
      alternatives = alternatives || tree_.link(node, k).code == '|';
      either = unite(either, *next);
      both = intersect(algebra_, both, *next);
    }
    return alternatives || both.empty() ? either : both;
  }

  /// [−1, 3) or (5, ∞).
  std::optional<RealSet> intervals(const Node& node) {
    RealSet either;
    for (std::int32_t k = 0; k < node.count; ++k) {
      if (tree_.child_at(node, k).kind != Kind::tuple || (k > 0 && tree_.link(node, k).code != '|'))
        return std::nullopt;
      const auto next = read(tree_.child(node, k));
      if (!next) return std::nullopt;
      either = unite(either, *next);
    }
    return either;
  }

  std::optional<RealSet> operation(const Node& node) {
    if (node.count > kMaxParts) return std::nullopt;
    auto set = read(tree_.child(node, 0));
    for (std::int32_t k = 1; set && k < node.count; ++k) {
      const Link link = tree_.link(node, k);
      const auto next = read(link.node);
      if (!next) return std::nullopt;
      if (link.code == 'U') set = unite(*set, *next);
      else set = intersect(algebra_, *set, link.code == 'N' ? *next : complement(algebra_, *next));
    }
    return set;
  }

  static char reversed(char code) noexcept {
    return code == '<' ? '>' : code == '>' ? '<' : code == 'l' ? 'g' : code == 'g' ? 'l' : code;
  }

  std::optional<RealSet> relation(const Node& node) {
    if (node.count == 2 && tree_.link(node, 1).code == 'e') {  // of 2x nothing follows for x here
      return is_variable(tree_.child(node, 0)) ? read(tree_.child(node, 1)) : std::nullopt;
    }
    RealSet set = all_reals(algebra_);
    for (std::int32_t k = 1; k < node.count; ++k) {
      char code = tree_.link(node, k).code;
      NodeIdx left = tree_.child(node, k - 1);
      NodeIdx right = tree_.child(node, k);
      if (has_symbols(tree_, right)) {
        std::swap(left, right);
        code = reversed(code);
      }
      if (has_symbols(tree_, right)) return std::nullopt;
      const Node& variable = tree_.at(left);
      const bool magnitude = variable.kind == Kind::absolute;
      const Kind kind = magnitude ? tree_.child_at(variable, 0).kind : variable.kind;
      if (kind != Kind::symbol && kind != Kind::subscript) return std::nullopt;
      const auto next = half_line(evaluator_.value(right), code, magnitude, algebra_);
      if (!next) return std::nullopt;
      set = intersect(algebra_, set, *next);
    }
    return set;
  }

  const Tree& tree_;
  Evaluator& evaluator_;
  Algebra algebra_;  ///< of infinities and signs only
};

}  // namespace

std::optional<RealSet> real_set(const Tree& tree, NodeIdx idx, Evaluator& evaluator) {
  return Reader(tree, evaluator).read(idx);
}

}  // namespace qrl::reward::math

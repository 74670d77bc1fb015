#include "reward/math/real_set.h"

#include <algorithm>
#include <utility>

#include "reward/math/tree.h"

namespace qrl::reward::math {

bool equal(const RealSet& a, const RealSet& b) noexcept {
  const auto same = [](const Cut& x, const Cut& y) {
    return x.at == y.at && x.above == y.above && equal(x.value, y.value);
  };
  return a.below == b.below && std::equal(a.cuts.begin(), a.cuts.end(), b.cuts.begin(), b.cuts.end(), same);
}

namespace {

/// The numbers for which `operation` holds of being in `a` and being in `b`.
template <class Operation>
RealSet combined(const RealSet& a, const RealSet& b, const Operation& operation) {
  RealSet out{operation(a.below, b.below), {}};
  bool in_a = a.below, in_b = b.below, before = out.below;
  for (auto x = a.cuts.begin(), y = b.cuts.begin(); x != a.cuts.end() || y != b.cuts.end();) {
    const bool more_a = x != a.cuts.end(), more_b = y != b.cuts.end();
    const bool both = more_a && more_b && equal(x->value, y->value);
    const bool of_a = both || !more_b || (more_a && x->real < y->real), of_b = both || !of_a;
    Cut cut = of_a ? *x : *y;
    cut.at = operation(of_a ? x->at : in_a, of_b ? y->at : in_b);
    if (of_a) in_a = (x++)->above;
    if (of_b) in_b = (y++)->above;
    cut.above = operation(in_a, in_b);
    if (cut.at != before || cut.above != before) out.cuts.push_back(cut);
    before = cut.above;
  }
  return out;
}

constexpr auto kEither = [](bool x, bool y) { return x || y; };
constexpr auto kBoth = [](bool x, bool y) { return x && y; };

/// The numbers below a bound, the bound and those above it that stand in a relation to it.
struct HalfLine {
  char code;
  bool below, at, above;
};
constexpr HalfLine kHalfLines[] = {{'<', true, false, false}, {'l', true, true, false},  {'>', false, false, true},
                                   {'g', false, true, true},  {'=', false, true, false}, {'n', true, false, true}};

std::optional<RealSet> half_line(const Value& bound, char code) {
  const auto* line = std::ranges::find(kHalfLines, code, &HalfLine::code);
  if (line == std::end(kHalfLines)) return std::nullopt;
  if (bound.infinite != 0)
    return (bound.infinite > 0 ? line->below : line->above) ? std::optional(RealSet{true, {}}) : std::nullopt;
  const auto real = bound.real();
  if (!real) return std::nullopt;
  return RealSet{line->below, {{bound, *real, line->at, line->above}}};
}

class Reader {
 public:
  Reader(const Tree& tree, Evaluator& evaluator) noexcept : tree_(tree), evaluator_(evaluator) {}

  /// Depth: kMaxTreeDepth.
  std::optional<RealSet> read(NodeIdx idx) {
    const Node& node = tree_.at(idx);
    switch (node.kind) {
      case Kind::tuple:
        return interval(node);
      case Kind::set:
        return points(node);
      case Kind::constant:
        return node.code == '0' ? std::optional(RealSet{}) : std::nullopt;
      case Kind::symbol:
        return is_reals(node) ? std::optional(RealSet{true, {}}) : std::nullopt;
      case Kind::subscript:  // \mathbb{R}^+, \mathbb{R}_{\ge 0}
        return is_reals(tree_.child_at(node, 0)) && tree_.child_at(node, 1).kind == Kind::relation
                   ? read(tree_.child(node, 1))
                   : std::nullopt;
      case Kind::set_builder:
        return described(node);
      case Kind::list:
        return conditions(node);
      case Kind::sum:
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
    return is_number_set(node) && node.text.find('R') != std::string_view::npos;
  }
  static constexpr std::int32_t kMaxParts = 64;  // of a union or of conditions, each of which goes over all before it

  std::optional<RealSet> interval(const Node& node) {
    if (node.count != 2) return std::nullopt;
    const auto low = half_line(evaluator_.value(tree_.child(node, 0)), node.open == '[' ? 'g' : '>');
    const auto high = half_line(evaluator_.value(tree_.child(node, 1)), node.close == ']' ? 'l' : '<');
    if (!low || !high) return std::nullopt;
    RealSet set = combined(*low, *high, kBoth);
    return set.below || !set.cuts.empty() ? std::optional(std::move(set)) : std::nullopt;
  }

  std::optional<RealSet> points(const Node& node) {
    RealSet set;
    for (const Link link : tree_.of(node)) {
      const Value value = evaluator_.value(link.node);
      const auto real = value.real();
      if (!real) return std::nullopt;
      set.cuts.push_back({value, *real, true, false});
    }
    std::ranges::stable_sort(set.cuts, {}, &Cut::real);
    const auto twice = [](const Cut& one, const Cut& other) { return equal(one.value, other.value); };
    set.cuts.erase(std::unique(set.cuts.begin(), set.cuts.end(), twice), set.cuts.end());
    return set;
  }

  /// {x | x > 1}, {x ∈ ℝ | x > 1}: of numbers of another kind nothing is known.
  std::optional<RealSet> described(const Node& node) {
    const Node& element = tree_.child_at(node, 0);
    const Node& variable = element.kind == Kind::relation ? tree_.child_at(element, 0) : element;
    if (!has_symbol(tree_, tree_.child(node, 1), variable.text)) return std::nullopt;
    auto set = read(tree_.child(node, 1));
    if (element.kind == Kind::symbol || !set) return set;
    const auto domain = read(tree_.child(node, 0));
    return domain ? std::optional(combined(*domain, *set, kBoth)) : std::nullopt;
  }

  /// x > 1, x < 2 are both meant; x < 1, x > 2 cannot be, so that either is, as with "or" between them or intervals.
  std::optional<RealSet> conditions(const Node& node) {
    RealSet either, both{true, {}};
    bool alternatives = false;
    const bool intervals = tree_.child_at(node, 0).kind == Kind::tuple;
    for (const auto& [member, code] : tree_.of(node)) {
      if (tree_.at(member).kind != (intervals ? Kind::tuple : Kind::relation)) return std::nullopt;
      if (!intervals && variables_of(tree_, tree_.child(node, 0)) != variables_of(tree_, member)) return std::nullopt;
      const auto next = node.count <= kMaxParts ? read(member) : std::nullopt;
      if (!next) return std::nullopt;
      alternatives = alternatives || code == '|';
      either = combined(either, *next, kEither);
      both = combined(both, *next, kBoth);
    }
    if (intervals && !alternatives) return std::nullopt;
    return alternatives || (!both.below && both.cuts.empty()) ? either : both;
  }

  /// Unions, intersections, differences, and ℝ − {0}.
  std::optional<RealSet> operation(const Node& node) {
    std::optional<RealSet> set;
    for (const auto& [part, code] : tree_.of(node)) {
      const Kind kind = tree_.at(part).kind;
      const bool minus = code == '-' && (kind == Kind::set || kind == Kind::tuple);
      const bool joins =
          set.has_value() == (code != 0) && (code == 0 || code == 'U' || code == 'N' || code == 'D' || minus);
      const auto next = joins && node.count <= kMaxParts ? read(part) : std::nullopt;
      if (!next) return std::nullopt;
      set = !set ? next : combined(*set, *next, [code = code](bool x, bool y) {
        return code == 'U' ? x || y : x && y == (code == 'N');
      });
    }
    return set;
  }

  std::optional<RealSet> relation(const Node& node) {
    if (node.count == 2 && tree_.link(node, 1).code == 'e') {  // of 2x nothing follows for x here
      const bool variable = tree_.child_at(node, 0).kind != Kind::product && is_name(tree_, tree_.child(node, 0));
      return variable ? read(tree_.child(node, 1)) : std::nullopt;
    }
    RealSet set{true, {}};
    for (std::int32_t k = 1; k < node.count; ++k) {
      char code = tree_.link(node, k).code;
      NodeIdx left = tree_.child(node, k - 1), right = tree_.child(node, k);
      if (has_symbols(tree_, right)) {
        std::swap(left, right);
        code = reversed(code);
      }
      if (has_symbols(tree_, right)) return std::nullopt;
      const bool magnitude = tree_.at(left).kind == Kind::absolute;
      const Node& variable = magnitude ? tree_.child_at(tree_.at(left), 0) : tree_.at(left);
      const bool named = variable.kind == Kind::symbol || variable.kind == Kind::subscript ||
                         (variable.kind == Kind::words && variable.text.empty());
      const Value bound = evaluator_.value(right);
      auto next = named ? half_line(bound, code) : std::nullopt;
      if (next && magnitude) {  // |x| < a with a > 0
        const auto other = half_line(algebra_.negate(bound), reversed(code));
        const auto real = bound.real();
        if (!real || *real <= 0) return std::nullopt;
        next = code == '<' || code == 'l' || code == 'n' ? combined(*next, *other, kBoth)
                                                         : combined(*next, *other, kEither);
      }
      if (!next) return std::nullopt;
      set = combined(set, *next, kBoth);
    }
    return set;
  }

  const Tree& tree_;
  Evaluator& evaluator_;
  Algebra algebra_;  ///< of signs only
};

}  // namespace

std::optional<RealSet> real_set(const Tree& tree, NodeIdx idx, Evaluator evaluator) {
  return Reader(tree, evaluator).read(idx);
}

}  // namespace qrl::reward::math

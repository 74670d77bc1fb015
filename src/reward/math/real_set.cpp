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

/// The numbers that are in a union (U), an intersection (N) or a difference of two sets.
RealSet combined(const RealSet& a, char code, const RealSet& b) {
  const auto operation = [code](bool x, bool y) { return code == 'U' ? x || y : x && y == (code == 'N'); };
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
  explicit Reader(Evaluator& evaluator) noexcept : evaluator_(evaluator) {}

  /// Depth: kMaxTreeDepth.
  std::optional<RealSet> read(const Node& at) {
    switch (at.kind) {
      case Kind::tuple:
        return interval(at);
      case Kind::set:
        return joined(at.parts, 'U', [&](const Node& point) { return half_line(evaluator_.value(point), '='); });
      case Kind::constant:
        return at.code == '0' ? std::optional(RealSet{}) : std::nullopt;
      case Kind::symbol:
        return is_reals(at) ? std::optional(RealSet{true, {}}) : std::nullopt;
      case Kind::subscript:  // \mathbb{R}^+, \mathbb{R}_{\ge 0}
        return is_reals(at[0]) && at[1].is(Kind::relation) ? read(at[1]) : std::nullopt;
      case Kind::set_builder:
        return described(at);
      case Kind::list:
        return conditions(at);
      case Kind::sum:
      case Kind::set_operation:
        return operation(at);
      case Kind::relation:
        return relation(at);
      default:
        return std::nullopt;
    }
  }

 private:
  static bool is_reals(const Node& at) noexcept {
    return is_number_set(at) && at.text.find('R') != std::string_view::npos;
  }
  static constexpr std::size_t kMaxParts = 64;  // of a union or of conditions, each of which goes over all before it

  /// The sets that `read` gives of parts, joined; nothing where one has none. `code` 0: by the signs before the parts.
  template <class Read>
  static std::optional<RealSet> joined(const std::vector<Node>& parts, char code, const Read& read) {
    RealSet all{code == 'N', {}};
    if (parts.size() > kMaxParts) return std::nullopt;
    for (const Node& part : parts) {
      const std::optional<RealSet> next = read(part);
      if (!next) return std::nullopt;
      all = combined(all, code != 0 ? code : part.joint != 0 ? part.joint : 'U', *next);
    }
    return all;
  }
  static bool is_empty(const RealSet& set) noexcept { return !set.below && set.cuts.empty(); }

  std::optional<RealSet> interval(const Node& at) {
    if (at.parts.size() != 2) return std::nullopt;
    const auto low = half_line(evaluator_.value(at[0]), at.open == '[' ? 'g' : '>');
    const auto high = half_line(evaluator_.value(at[1]), at.close == ']' ? 'l' : '<');
    if (!low || !high) return std::nullopt;
    RealSet set = combined(*low, 'N', *high);
    return is_empty(set) ? std::nullopt : std::optional(std::move(set));
  }

  /// {x | x > 1}, {x ∈ ℝ | x > 1}: of numbers of another kind nothing is known.
  std::optional<RealSet> described(const Node& at) {
    const Node& variable = at[0].is(Kind::relation) ? at[0][0] : at[0];
    if (!has_symbol(at[1], variable.text)) return std::nullopt;
    auto set = read(at[1]);
    if (at[0].is(Kind::symbol) || !set) return set;
    const auto domain = read(at[0]);
    return domain ? std::optional(combined(*domain, 'N', *set)) : std::nullopt;
  }

  /// x > 1, x < 2 are both meant; x < 1, x > 2 cannot be, so that either is, as with "or" between them or intervals.
  std::optional<RealSet> conditions(const Node& at) {
    const bool intervals = at[0].is(Kind::tuple), either = std::ranges::count(at.parts, '|', &Node::joint) > 0;
    const auto member = [&](const Node& each) {
      const bool alike = each.kind == at[0].kind && (intervals || variables_of(each) == variables_of(at[0]));
      return alike ? read(each) : std::nullopt;
    };
    if (intervals ? !either : !at[0].is(Kind::relation)) return std::nullopt;
    auto both = joined(at.parts, 'N', member);
    return both && (either || is_empty(*both)) ? joined(at.parts, 'U', member) : both;
  }

  /// Unions, intersections, differences, and ℝ − {0}.
  std::optional<RealSet> operation(const Node& at) {
    return joined(at.parts, 0, [&](const Node& part) {
      const bool minus = part.joint == '-' && part.is(Kind::set, Kind::tuple);
      const bool first = &part == at.parts.data(),
                 sign = std::string_view("UND").find(part.joint) != std::string_view::npos;
      return (first ? part.joint == 0 : minus || sign) ? read(part) : std::nullopt;
    });
  }

  std::optional<RealSet> relation(const Node& at) {
    if (at.parts.size() == 2 && at[1].joint == 'e')  // of 2x nothing follows for x here
      return !at[0].is(Kind::product) && is_name(at[0]) ? read(at[1]) : std::nullopt;
    RealSet set{true, {}};
    for (std::size_t k = 1; k < at.parts.size(); ++k) {
      const bool turned = has_symbols(at[k]);
      const Node &left = at[turned ? k : k - 1], &right = at[turned ? k - 1 : k];
      const char code = turned ? reversed(at[k].joint) : at[k].joint;
      if (has_symbols(right)) return std::nullopt;
      const bool magnitude = left.is(Kind::absolute);
      const Node& variable = magnitude ? left[0] : left;
      const bool named =
          variable.is(Kind::symbol, Kind::subscript) || (variable.is(Kind::words) && variable.text.empty());
      const Value bound = evaluator_.value(right);
      auto next = named ? half_line(bound, code) : std::nullopt;
      if (next && magnitude) {  // |x| < a with a > 0
        const auto other = half_line(algebra_.negate(bound), reversed(code));
        const auto real = bound.real();
        if (!real || *real <= 0) return std::nullopt;
        next = combined(*next, code == '<' || code == 'l' || code == 'n' ? 'N' : 'U', *other);
      }
      if (!next) return std::nullopt;
      set = combined(set, 'N', *next);
    }
    return set;
  }

  Evaluator& evaluator_;
  Algebra algebra_;  ///< of signs only
};

}  // namespace

std::optional<RealSet> real_set(const Node& at, Evaluator evaluator) { return Reader(evaluator).read(at); }

}  // namespace qrl::reward::math

#include <algorithm>

#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

/// Describes a number at which membership in a set changes.
struct Cut {
  Value value;
  long double real;
  bool at, above;  ///< membership at the number, and above it up to the next cut
  friend bool operator==(const Cut& x, const Cut& y) noexcept {
    return x.at == y.at && x.above == y.above && equal(x.value, y.value);
  }
};

struct RealSet {
  bool below = false;     ///< membership below all cuts
  std::vector<Cut> cuts;  ///< ascending
  bool is_empty() const noexcept { return !below && cuts.empty(); }
  bool operator==(const RealSet&) const = default;
};
using Set = std::optional<RealSet>;

/// Returns the union ('U'), intersection ('N') or difference of two sets; none if one of them is unknown.
Set combined(const Set& a, char code, const Set& b) {
  if (!a || !b) return std::nullopt;
  const auto operation = [code](bool x, bool y) { return code == 'U' ? x || y : x && y == (code == 'N'); };
  RealSet out{operation(a->below, b->below), {}};
  bool in_a = a->below, in_b = b->below, before = out.below;
  for (auto x = a->cuts.begin(), y = b->cuts.begin(); x != a->cuts.end() || y != b->cuts.end();) {
    const bool more_a = x != a->cuts.end(), more_b = y != b->cuts.end();
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

Set half_line(const Value& bound, char code) {
  const auto is_below = [](char sign) { return sign == '<' || sign == 'l' || sign == 'n'; };
  const bool below = is_below(code), above = is_below(reversed(code)), at = has("lg=", code);
  const auto real = bound.real();
  if (bound.infinite != 0 && (bound.infinite > 0 ? below : above)) return RealSet{true, {}};
  return real && (below || at || above) ? Set({below, {{bound, *real, at, above}}}) : std::nullopt;
}

bool is_reals(const Node& at) noexcept { return is_number_set(at) && has(at.text, 'R'); }

/// Reads a tree as a set of reals: intervals, finite sets, unions and differences, ℝ, inequalities and memberships of
/// one isolated variable (a < x ≤ b, |x| < a, x ≠ a). Returns none for other trees.
struct Reader {
  Evaluator evaluator;

  Set read(const Node& at) {
    if (at.is(Kind::tuple)) return interval(at);
    if (at.is(Kind::set))
      return joined(at.parts, 'U', [&](const Node& point) { return half_line(evaluator.value(point), '='); });
    if (at.is(Kind::symbol)) return is_reals(at) ? Set({true, {}}) : std::nullopt;
    if (at.is(Kind::subscript))
      return is_reals(at[0]) ? read(at[1]) : std::nullopt;  // \mathbb{R}^+, \mathbb{R}_{\ge 0}
    if (at.is(Kind::set_builder)) return described(at);
    if (at.is(Kind::list)) return conditions(at);
    if (at.is(Kind::sum, Kind::set_operation)) return operation(at);
    return at.is(Kind::relation) ? relation(at) : std::nullopt;
  }

  /// Combines the sets of all parts by operation `code`; 0: by the sign before each part. Returns none if a part is no
  /// set.
  template <class Read>
  static Set joined(const std::vector<Node>& parts, char code, const Read& read) {
    constexpr std::size_t kMaxParts = 64;  // limits the quadratic work
    Set all = RealSet{code == 'N', {}};
    if (parts.size() > kMaxParts) return std::nullopt;
    for (const Node& part : parts)
      all = combined(all, code != 0 ? code : part.joint != 0 ? part.joint : 'U', read(part));
    return all;
  }

  Set interval(const Node& at) {
    if (at.parts.size() != 2) return std::nullopt;
    const Set low = half_line(evaluator.value(at[0]), at.open == '[' ? 'g' : '>');
    const Set high = half_line(evaluator.value(at[1]), at.close == ']' ? 'l' : '<');
    const Set set = combined(low, 'N', high);
    return set && set->is_empty() ? std::nullopt : set;
  }

  /// Reads {x | x > 1} and {x ∈ ℝ | x > 1}; none for domains that `read` does not know (ℤ).
  Set described(const Node& at) {
    const Node& variable = at[0].is(Kind::relation) ? at[0][0] : at[0];
    const Set set = has_symbol(at[1], variable.text) ? read(at[1]) : std::nullopt;
    return at[0].is(Kind::symbol) ? set : combined(read(at[0]), 'N', set);
  }

  /// Intersects conditions ("x > 1, x < 2"). Unites them if "or" joins them, or if their intersection is empty ("x < 1,
  /// x > 2").
  Set conditions(const Node& at) {
    const bool either = std::ranges::count(at.parts, '|', &Node::joint) > 0;
    const auto member = [&](const Node& each) {
      return each.kind == at[0].kind && variables_of(each) == variables_of(at[0]) ? read(each) : std::nullopt;
    };
    if (!at[0].is(Kind::relation) && !(either && at[0].is(Kind::tuple))) return std::nullopt;
    const Set both = joined(at.parts, 'N', member);
    return both && (either || both->is_empty()) ? joined(at.parts, 'U', member) : both;
  }

  Set operation(const Node& at) {
    return joined(at.parts, 0, [&](const Node& part) {
      const bool minus = part.joint == '-' && part.is(Kind::set, Kind::tuple);
      return (&part == at.parts.data() ? part.joint == 0 : minus || has("UND", part.joint)) ? read(part) : std::nullopt;
    });
  }

  Set relation(const Node& at) {
    if (at.parts.size() == 2 && at[1].joint == 'e')  // 2x ∈ S says nothing about x
      return !at[0].is(Kind::product) && is_name(at[0]) ? read(at[1]) : std::nullopt;
    Set set = RealSet{true, {}};
    for (std::size_t k = 1; k < at.parts.size(); ++k) {
      const bool turned = has_symbols(at[k]);
      const Node &left = at[turned ? k : k - 1], &right = at[turned ? k - 1 : k];
      set = combined(set, 'N', bounded(left, turned ? reversed(at[k].joint) : at[k].joint, right));
    }
    return set;
  }

  Set bounded(const Node& left, char code, const Node& right) {
    const bool magnitude = left.is(Kind::absolute);
    const Node& variable = magnitude ? left[0] : left;
    const bool named =
        variable.is(Kind::symbol, Kind::subscript) || (variable.is(Kind::words) && variable.text.empty());
    if (!named || has_symbols(right)) return std::nullopt;
    const Value bound = evaluator.value(right);
    Set set = half_line(bound, code);
    if (!set || !magnitude) return set;
    if (bound.real().value_or(0) <= 0) return std::nullopt;  // |x| < a with a > 0
    return combined(set, set->below ? 'N' : 'U', half_line(evaluator.negate(bound), reversed(code)));
  }
};

}  // namespace

bool Equality::same_reals(const Answer& g, const Answer& a) {
  const auto read = [this](const Answer& x) {
    const bool one = x.sign != 0 || !has_plus_minus(x.at());
    return one ? Reader{evaluator(x)}.read(x.at()) : std::nullopt;
  };
  const Set x = read(g);
  if (!x || x != read(a)) return false;
  // Distinguishes variables: x < 2 is not y < 2.
  return g.form != Form::relation || a.form != Form::relation || variables_of(g.at()) == variables_of(a.at()) ||
         (g.code(1) == 'e' && a.code(1) == 'e');
}

}  // namespace qrl::reward::math

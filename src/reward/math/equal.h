#pragma once

#include <map>
#include <tuple>

#include "reward/math/answer.h"
#include "reward/math/evaluate.h"

namespace qrl::reward::math {

/// Compares two answers by the rules of docs/reference/verifiers.md. A bare list equals a tuple in the same order.
class Equality {
 public:
  explicit Equality(const Vocabulary& vocabulary) noexcept : vocabulary_(vocabulary) {}
  bool run(const Answer& gold, const Answer& answer);
  bool out_of_budget() const noexcept { return budget_.spent(); }

 private:
  using Parts = std::span<const Answer>;
  // ---- equal.cpp: forms, values and collections
  bool same(const Answer& g, const Answer& a);
  bool same_form(const Answer& g, const Answer& a);
  bool same_notes(const Answer& g, const Answer& a) const;
  bool same_values(const Answer& g, const Answer& a);
  Measure unit_of(const Answer& x) const;
  bool same_units(Answer g, Answer a);
  bool same_value(const Answer& g, const Answer& a);
  const Value& value(const Answer& x, std::size_t lane = 0);
  Evaluator evaluator(const Answer& of, std::size_t lane = 0) {
    return {Algebra(lane, variables_), budget_, of.sign >= 0};
  }
  bool same_collections(const Answer& g, const Answer& a);
  bool in_order(Parts x, Parts y);
  bool as_sets(Parts x, Parts y, bool counted);
  bool same_sets(const Answer& g, const Answer& a);
  std::uint64_t image(const Answer& of);

  // ---- real_set.cpp
  bool same_reals(const Answer& g, const Answer& a);

  // ---- relations.cpp
  bool same_relations(const Answer& g, const Answer& a);
  bool solved_by(const Answer& solution, const Answer& equation);
  int proportion(const Answer& g, const Answer& a);
  /// Returns whether `relation` gives its left side the value `other`: x = 5 equals 5, x ∈ S equals S.
  bool says(const Answer& relation, const Answer& other, bool gold);
  bool is_consistent(const Answer& relation);
  bool is_same_constant(const Answer& one, const Answer& other, bool about);

  const Vocabulary& vocabulary_;
  Budget budget_;
  Variables variables_;
  std::map<std::tuple<const Node*, bool, std::size_t>, Value> values_;  ///< values by node, sign of ±, and lane
  int depth_ = 0;
};

bool ends_within(std::int64_t denominator, std::size_t places) noexcept;

}  // namespace qrl::reward::math

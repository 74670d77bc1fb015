// Owns the comparison of two answers that are read: which rule serves which pair of forms. Knows nothing of how a text
// may be read.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "reward/math/evaluate.h"
#include "reward/math/tree.h"
#include "reward/math/units.h"

namespace qrl::reward::math {

/// A node on one side, and which sign its ± stands for: 0 both, as a list of two.
struct Item {
  NodeIdx node = -1;
  int sign = 0;
};

enum class Side : bool { gold, answer };

/// Whether a fraction with this denominator has that many decimal places at most.
bool ends_within(std::int64_t denominator, std::size_t places) noexcept;

class Comparer {
 public:
  /// Both trees must outlive it.
  Comparer(const Tree& gold, const Tree& answer) noexcept : gold_(gold), answer_(answer) {}

  /// Whether the two are the same answer, by the rules of compare.h; false as well when the budget ran out.
  bool run() { return same_currency() && same({gold_.root, 0}, {answer_.root, 0}); }
  bool out_of_budget() const noexcept { return budget_.spent(); }

 private:
  const Tree& tree(Side side) const noexcept { return side == Side::gold ? gold_ : answer_; }
  const Node& at(Side side, Item item) const noexcept { return tree(side).at(item.node); }
  Item part(Side side, Item item, std::int32_t k) const noexcept {
    return {tree(side).child(at(side, item), k), item.sign};
  }

  // ---- comparer.cpp: values, and which rule serves
  Value value(Side side, Item item, Algebra& algebra);
  /// With no root turned around; each is computed once.
  const Value& value(Side side, Item item);
  /// Equal under some choice of signs of ambiguous roots, in every lane.
  bool same_value(Item g, Item a);
  /// The same signs whichever of their variables are even: (−1)ⁿ is not (−1)ᵐ, which a few assignments may not show.
  bool alternates_alike(Item g, Item a);
  /// A decimal written with six places or more, within one unit of its last place of the other side, which is none: so
  /// that it may be rounded or cut off.
  bool rounds(Item g, Item a, const Value& x, const Value& y) const;
  bool same(Item g, Item a);
  bool same_form(Item g, Item a);
  /// 3 mod 7 and 10 mod 7, but not 3 mod 5.
  bool same_residues(Item g, Item a);
  bool is_both_signs(Side side, Item item) const;
  /// Relations one of which has ±, or one and what it says of its left side: x = ±2 is x = 2, x = −2, not x = 2.
  bool same_of_both_signs(Item g, Item a);
  /// "(E)" and E, Yes and "Yes, it does": by the letters that are shown.
  bool same_words(Item g, Item a);
  bool is_plain_number(Side side, Item item) const noexcept;
  bool same_quantities(Item g, Item a);
  /// Numbers without words: 20 for 20 %, 90 for 90°.
  bool same_marked(Item g, Item a);
  /// False where signs of money say two different ones.
  bool same_currency() const noexcept;
  /// A number with what stands beside it: its unit, a magnitude, all its words.
  struct Amount {
    Item number;
    Measure unit;
    long double scale = 1;
    std::string_view words;
  };
  Amount amount(Side side, Item item) const;
  /// Whether words behind two amounts may be units of the same, which need not be known: not those that say something.
  bool may_be_units(const Amount& gold, const Amount& answer) const;
  bool same_units(Item g, Item a);
  /// Nothing where they are no times of day.
  std::optional<bool> same_times(Item g, Item a);

  // ---- comparer_relations.cpp
  static bool is_equality(char code) noexcept;
  /// x = 5 is 5, x ∈ S is S, 2 + 3 = 5 is 5: whether what a relation says of its left side is `other`.
  bool is_value_of(Side side, Item relation, Item other);
  /// Whether what an answer says to be equal to a constant or a matrix may be a name of it: f(1) + f(2), x² + y²,
  /// A^{-1}; an equation in one variable is to be solved.
  bool names_gold(NodeIdx left, Item gold) const;
  /// Whether each constant said to be equal to the one before is, so that two different answers are not two guesses.
  /// What follows an ≈ may be rounded to an integer as well; in a gold answer it illustrates.
  bool is_consistent(Side side, Item relation);
  bool is_real_constant(Side side, Item item);
  /// A set, tuple, matrix, ±, ∞ or number that is not real, without symbols.
  bool is_other_constant(Side side, Item item);
  /// Two items of one side, by the rules for two sides.
  bool says_the_same(Side side, Item one, Item other);
  /// Equal, or one of them a decimal that the other gives when rounded: 5/6 = 0.833, 9π = 28.26. Different units do not
  /// agree; a number without one is held against the other's number alone: 17 m = 17. `about`: by ≈.
  bool is_same_constant(Side side, const Amount& one, const Amount& other, bool about);
  /// Whether a relation ends with a modulus.
  bool is_congruence(Side side, Item relation) const noexcept;
  /// y = 2x + 1 and x = (y − 1)/2: each holds where the other does. Rational functions only.
  bool same_solved(Item g, Item a);
  /// The side of an equation that is what a variable on its other side is; nothing where there is no such.
  std::optional<Item> solved_for(Side side, Item relation, std::string_view& variable) const;
  /// The relation that it is when read from right to left.
  static char reversed(char code) noexcept;
  bool same_relations(Item g, Item a);
  bool all_equalities(Side side, const Node& node) const noexcept;
  /// Both sides of two relations alike, in order or swapped.
  bool same_pair(Item g, Item a, bool allowed, bool swapped);
  bool same_equations(Item g, Item a);
  /// The sign of the constant by which left minus right of one is that of the other; 0 when there is none.
  int proportion(Item g, Item a);
  /// The sign of the constant y/x, 0 when it depends on variables or either is 0.
  int sign_of_ratio(const Value& x, const Value& y) const;
  bool may_be_proportional(Item g, Item a) const;
  /// xy = 1 and y = 1/x: proportional when denominators are cleared (cleared.h).
  bool same_cleared(Item g, Item a);
  /// (x, y) = (1, 2) and (y, x) = (2, 1).
  bool same_assigned(Item g, Item a);
  /// a < b < c and c > b > a.
  bool same_chains(Item g, Item a);

  // ---- comparer_collections.cpp
  /// The members of a list, tuple or set; of ± both values; of anything else itself.
  std::vector<Item> members(Side side, Item item) const;
  /// What each counts, where it is a number with words: "apple" of 3 apples.
  std::vector<std::string> labels(Side side, const std::vector<Item>& items) const;
  bool has_dots(Side side, Item item) const noexcept;
  /// The numbers kπ with k ∈ ℤ: their form, and the parameter, whose name does not matter.
  struct Family {
    Item member;
    std::string_view parameter;
  };
  std::optional<Family> family(Side side, Item item) const;
  bool same_families(Item g, Item a);
  /// Equal where the letter of one is that of the other.
  bool same_under_names(Item g, std::string_view of_gold, Item a, std::string_view of_answer);
  /// Equal whatever their free letters are called (forms.h): 2kπ and 2nπ, x + C and x + c.
  bool same_renamed(Item g, Item a);
  bool same_collections(Item g, Item a);
  bool in_order(const std::vector<Item>& x, const std::vector<Item>& y);
  /// Where a member stands among others of its kind: those that equal it are within its reach.
  struct Place {
    std::int32_t num_numbers = 0;  ///< which kind: 1 a number, n + 1 a tuple of n real constants; 0 any other, nowhere
    long double at = 0, reach = 0;
    friend bool operator<(const Place& one, const Place& other) noexcept {
      return one.num_numbers != other.num_numbers ? one.num_numbers < other.num_numbers : one.at < other.at;
    }
  };
  struct Member {
    Item item;
    std::string_view label;    ///< what it counts, of labels()
    const Value* number = {};  ///< what it is worth; null: it is none
    Place place;
  };
  Member member(Side side, Item item, std::string_view label);
  Place place(Side side, Item item, const Value* number);
  /// Every member of each is one of the other; `counted`: as often. Numbers and points are sought by their size, so
  /// that their order costs nothing; others are compared each with each.
  bool as_sets(const std::vector<Item>& x, const std::vector<Item>& y, bool counted);
  /// a : b : c up to a common factor.
  bool same_proportions(const std::vector<Item>& x, const std::vector<Item>& y);
  bool same_matrices(Item g, Item a);
  /// x = 1, y = 2 in the order of their letters where these are neighbors or of x, y and z; nothing where it is no
  /// such list.
  std::optional<std::vector<Item>> named_coordinates(Side side, Item item) const;
  /// (1, −2, 3) and i − 2j + 3k.
  bool same_components(Item g, Item a);
  /// Values with conditions, in any order.
  bool same_cases(Item g, Item a);
  std::vector<Item> entries(Side side, Item item) const;
  /// Unions and differences part by part: for what is no set of real constants.
  bool same_sets(Item g, Item a);
  bool same_reals(Item g, Item a);

  const Tree& gold_;
  const Tree& answer_;
  Budget budget_;
  Algebra algebra_;                  ///< with no root turned around
  std::vector<const Value*> known_;  ///< of values_, by node, sign and side; null: not yet
  std::deque<Value> values_;
  int depth_ = 0;
};

}  // namespace qrl::reward::math

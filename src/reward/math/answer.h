// Owns what an answer is: one of a few forms, whose parts are answers, with notes beside it. Knows nothing of other
// answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// The product of the units in "km/h", "square meters", "cm^2": its dimensions as a sorted text, and its factor.
struct Measure {
  std::string dimensions;
  long double factor = 1;
  bool known = false;
  bool is(char dimension) const noexcept { return dimensions.size() == 1 && dimensions[0] == dimension; }
};

/// What stands beside an answer. Notes must agree where both sides have them and count for nothing otherwise.
struct Notes {
  std::string name;  ///< of a point, A of A(1, 2), or of the variable of x ∈ {1, 2}
  std::string run;   ///< capitals in a row, HTH, which are a product besides
  Measure unit;
  long double scale = 1;   ///< 1e6 of "million"
  std::string_view words;  ///< behind a number
};

enum class Form : unsigned char {
  value,     ///< a number or formula; a part: the same with letters as a unit
  list,      ///< any order: a list, or ± (`signs`), or alternatives (`either`), or rows of cases, which are tuples
  set,       ///< any order, repetitions count nothing
  tuple,     ///< in order; an interval as well
  matrix,    ///< entries by rows; `columns`
  relation,  ///< sides
  sets,      ///< a union or difference, ℝ, ∅, {x | …}
  text,
};

struct Answer {
  Form form = Form::value;
  const Tree* tree = nullptr;
  const Node* node = nullptr;
  int sign = 1;         ///< which its ± stands for
  bool signs = false;   ///< list: of both
  bool either = false;  ///< list: "or" joins members
  Notes notes;
  std::vector<Answer> parts;
  const Node& at() const noexcept { return *node; }
  /// What stands before a part: relations.
  char code(std::size_t k) const noexcept { return at()[k].joint; }
};

/// A rule of lowering: rewrites a node of its kind where it applies. Sees one side alone.
struct Lowering {
  Tree& tree;
  const Vocabulary& vocabulary;
  const Node* add(Node node) { return &tree.added.emplace_back(std::move(node)); }
};
/// The node that takes a node's place; null: the rule does not apply.
using Rewrite = const Node*(Lowering& lowering, const Node& at, Notes& notes);
Rewrite combination, named_point, named_reals, with_unit, run_of_capitals, membership;
struct Rule {
  std::string_view name;
  Kind kind;
  Rewrite* rewrites;
  std::string_view example;
};
std::span<const Rule> default_rules() noexcept;

/// The answer that a tree is; `tree` must outlive it and is added to.
Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules);

Measure measure(std::string_view words, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

// Owns what an answer is: one of a few forms, whose parts are answers, with notes beside it. Knows nothing of other
// answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// What the words behind a number say: "km/h", "square meters", "million dollars".
struct Measure {
  std::uint64_t dimensions = 0;  ///< the sum of those of its units, each a number of its own; 0: not known
  long double factor = 1;        ///< the product of those of its units
  long double scale = 1;         ///< 1e6 of "million"
  bool is_known() const noexcept { return dimensions != 0; }
  bool is(char dimension) const noexcept { return dimensions == number_of(dimension); }
  static constexpr std::uint64_t number_of(char dimension) noexcept {
    if (dimension == 's') return number_of('l') - number_of('t');
    const std::uint64_t mixed = static_cast<unsigned char>(dimension) * 0x9e3779b97f4a7c15u;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
  }
};
Measure measure(std::string_view words, const Vocabulary& vocabulary);
/// What both numbers are to be multiplied by to be compared; nothing where they measure different things.
std::optional<std::array<long double, 2>> scales(const Measure& one, const Measure& other) noexcept;

/// What stands beside an answer. Notes must agree where both sides have them and count for nothing otherwise.
struct Notes {
  std::string name;  ///< of a point, A of A(1, 2), or of the variable of x ∈ {1, 2}
  std::string run;   ///< capitals in a row, HTH, which are a product besides
  Measure unit;
  std::string_view words;  ///< behind a number
};

enum class Form : unsigned char {
  value,     ///< a number or formula; a part: the same with letters as a unit
  list,      ///< any order: a list, or ± (`signs`), or alternatives (`either`), or rows of cases, which are tuples
  set,       ///< any order, repetitions count nothing
  tuple,     ///< in order; an interval as well, and a matrix: its rows, or the entries of one row or column
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
  bool is_collection() const noexcept { return form == Form::list || form == Form::set || form == Form::tuple; }
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
Rewrite combination, named_point, named_reals, with_unit, run_of_capitals, membership, usual_domain;
struct Rule {
  std::string_view name;
  Kind kind;
  Rewrite* rewrites;
  std::string_view example;
};
std::span<const Rule> default_rules() noexcept;

/// The answer that a tree is; `tree` must outlive it and is added to.
Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules);

}  // namespace qrl::reward::math

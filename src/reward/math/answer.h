// Owns the type of an answer: one of a few forms, whose parts are answers, with notes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// The meaning of the words after a number: "km/h", "square meters", "million dollars".
struct Measure {
  std::uint64_t dimensions = 0;  ///< sum over its units of a number per dimension; 0: unknown
  long double factor = 1;        ///< product of its units' factors
  long double scale = 1;         ///< 1e6 for "million"
  bool is_known() const noexcept { return dimensions != 0; }
  bool is(char dimension) const noexcept { return dimensions == number_of(dimension); }
  static constexpr std::uint64_t number_of(char dimension) noexcept {
    if (dimension == 's') return number_of('l') - number_of('t');
    const std::uint64_t mixed = static_cast<unsigned char>(dimension) * 0x9e3779b97f4a7c15u;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
  }
};
Measure measure(std::string_view words, const Vocabulary& vocabulary);
/// Returns the factors of the two numbers before comparison; nothing if the dimensions differ.
std::optional<std::array<long double, 2>> scales(const Measure& one, const Measure& other) noexcept;

/// What accompanies an answer. Notes must agree if both sides have them, and are ignored otherwise.
struct Notes {
  std::string name;  ///< of a point, A in A(1, 2), or of the variable in x ∈ {1, 2}
  std::string run;   ///< consecutive capitals, e.g. HTH, which may also be a product
  Measure unit;
  std::string_view words;  ///< after a number
};

enum class Form : unsigned char {
  value,     ///< a number or formula; a part: the same with letters read as a unit
  list,      ///< in any order: a list, ± (`signs`), alternatives (`either`), or rows of cases as tuples
  set,       ///< unordered, without repetitions
  tuple,     ///< ordered; also an interval, and a matrix: its rows, or the entries of a single row or column
  relation,  ///< the parts are its sides
  sets,      ///< a union or difference, ℝ, ∅, {x | …}
  text,
};

struct Answer {
  Form form = Form::value;
  const Tree* tree = nullptr;
  const Node* node = nullptr;
  int sign = 1;         ///< the sign that ± represents in this answer
  bool signs = false;   ///< list: both signs of a ±
  bool either = false;  ///< list: members joined by "or"
  Notes notes;
  std::vector<Answer> parts;
  const Node& at() const noexcept { return *node; }
  bool is_collection() const noexcept { return form == Form::list || form == Form::set || form == Form::tuple; }
  char code(std::size_t k) const noexcept { return at()[k].joint; }
};

/// A lowering rule's access to the tree and the vocabulary. A rule rewrites a node of its kind, and sees only one side
/// of the comparison.
struct Lowering {
  Tree& tree;
  const Vocabulary& vocabulary;
  const Node* add(Node node) { return &tree.added.emplace_back(std::move(node)); }
};
/// Returns the replacement of a node; null if the rule does not apply.
using Rewrite = const Node*(Lowering& lowering, const Node& at, Notes& notes);
Rewrite combination, named_point, named_reals, with_unit, run_of_capitals, membership, usual_domain;
struct Rule {
  std::string_view name;
  Kind kind;
  Rewrite* rewrites;
  std::string_view example;
};
std::span<const Rule> default_rules() noexcept;

/// Converts a tree, which must outlive the answer and gets new nodes.
Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules);

}  // namespace qrl::reward::math

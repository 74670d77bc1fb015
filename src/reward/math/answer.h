#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// Describes the unit after a number: "km/h", "square meters", "million dollars".
struct Measure {
  std::uint64_t dimensions = 0;  ///< sum over the units of exponent · number_of(dimension); 0: unknown
  long double factor = 1;        ///< product of the units' conversion factors
  long double scale = 1;         ///< 1e6 for "million"
  bool is_unit = false;          ///< whether every word is a unit, with known dimensions or not
  bool is_known() const noexcept { return dimensions != 0; }
  bool is(char dimension) const noexcept { return dimensions == number_of(dimension); }
  static constexpr std::uint64_t number_of(char dimension) noexcept {
    switch (dimension) {
      case 's':  // speed
        return number_of('l') - number_of('t');
      case 'v':  // volume
        return 3 * number_of('l');
      case 'H':  // frequency
        return 0 - number_of('t');
      case 'N':  // force
        return number_of('m') + number_of('l') - 2 * number_of('t');
      case 'J':  // energy
        return number_of('N') + number_of('l');
      case 'W':  // power
        return number_of('J') - number_of('t');
      case 'P':  // pressure
        return number_of('N') - 2 * number_of('l');
      case 'V':  // voltage
        return number_of('W') - number_of('A');
      case 'R':  // resistance
        return number_of('V') - number_of('A');
      default:
        break;
    }
    const std::uint64_t mixed = static_cast<unsigned char>(dimension) * 0x9e3779b97f4a7c15u;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
  }
};
Measure measure(std::string_view words, const Vocabulary& vocabulary);
/// Returns the factors that convert both numbers to common units; none if the dimensions differ.
std::optional<std::array<long double, 2>> scales(const Measure& one, const Measure& other) noexcept;

/// Holds an answer's name, run of capitals, unit and words. A name or run is compared only if both answers have one.
struct Notes {
  std::string name;  ///< name of a point (A in A(1, 2)), or of the variable in x ∈ {1, 2}
  std::string run;   ///< adjacent capitals such as HTH, which may be a product
  Measure unit;
  std::string_view words;  ///< words after a number
};

enum class Form : unsigned char {
  /// A number or formula. If its letters may be a unit (6 m), parts[0] is the answer with that unit.
  value,
  list,      ///< unordered: a list, the values of ± (`signs`), alternatives (`either`), or rows of cases as tuples
  set,       ///< unordered, without repetitions
  tuple,     ///< ordered: a tuple, an interval, or a matrix (its rows; the entries if it has a single row or column)
  relation,  ///< an equation or inequality; `parts`: its sides
  sets,      ///< a union or difference, ℝ, ∅, {x | …}
  text,
};

struct Answer {
  Form form = Form::value;
  const Tree* tree = nullptr;
  const Node* node = nullptr;
  int sign = 1;         ///< sign that ± takes in this answer: 1, −1, or 0 while undecided
  bool signs = false;   ///< list: `parts` are the two values of a ±
  bool either = false;  ///< list: members joined by "or"
  Notes notes;
  std::vector<Answer> parts;
  const Node& at() const noexcept { return *node; }
  bool is_collection() const noexcept { return form == Form::list || form == Form::set || form == Form::tuple; }
  char code(std::size_t k) const noexcept { return at()[k].joint; }
};

/// Holds what lowering rules use. A rule rewrites nodes of one kind, and sees only one of the two answers.
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

/// Converts a tree to an answer. Adds nodes to the tree, which must outlive the answer.
Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules);

}  // namespace qrl::reward::math

// Owns the form of an answer as a tree. Knows nothing of how it was written or what it is worth.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

inline constexpr int kMaxTreeDepth = 100;
inline constexpr std::string_view kCases = "cases";  ///< the environment of rows with conditions and of systems

enum class Kind : std::uint8_t {
  number,    ///< text
  symbol,    ///< text
  constant,  ///< code: p(π) e i o(∞) 0(∅)
  words,     ///< text
  sum,       ///< links: + − P(±) M(∓)
  product,   ///< links: * / m(mod), or another code for an operation without a law here
  power,     ///< base, exponent
  root,      ///< radicand, degree if not 2
  call,      ///< text: function, empty where it is the first link; arguments; links: _ index, ^ exponent
  factorial,
  absolute,
  percent,
  degree,
  floor,
  ceiling,
  prime,
  subscript,      ///< base, index
  binomial,       ///< n, k
  mixed,          ///< whole, fraction
  list,           ///< separated by commas, semicolons, and, or (link |)
  tuple,          ///< in brackets: `open` and `close` tell which
  set,            ///< \{…\}
  set_builder,    ///< element, condition
  set_operation,  ///< links: U N D
  relation,       ///< links: relations as in TokenType::relation
  ratio,          ///< a : b : …
  quantity,       ///< number, words: a unit
  matrix,         ///< entries by rows; `columns`; text: its environment, "cases" of rows with conditions and systems
  determinant,    ///< of a matrix
  dots,
};

/// Why a text is not in the grammar, thrown while it is parsed.
struct Unreadable {
  std::string_view fault;
};

struct Node {
  Kind kind = Kind::number;
  char joint = 0;            ///< what stands before it in its parent
  char open = 0, close = 0;  ///< of a tuple
  char code = 0;             ///< of a leaf or call: that of its token
  std::size_t columns = 0;   ///< of a matrix
  std::int32_t depth = 1;    ///< at most kMaxTreeDepth
  std::string_view text;
  std::vector<Node> parts;

  explicit Node(Kind of, std::string_view its_text = {}, char its_code = 0)
      : kind(of), code(its_code), text(its_text) {}
  /// Throws Unreadable where it would be too deep.
  Node(Kind of, std::vector<Node> its_parts);
  template <std::same_as<Node>... Parts>
  Node(Kind of, Node first, Parts... others) : Node(of, joined(std::move(first), std::move(others)...)) {}
  /// Itself, behind a sign.
  Node behind(char sign) && noexcept { return joint = sign, std::move(*this); }

  /// Whether it is one of these kinds.
  template <std::same_as<Kind>... Kinds>
  bool is(Kinds... kinds) const noexcept {
    return ((kind == kinds) || ...);
  }
  const Node& operator[](std::size_t k) const noexcept { return parts[k]; }
  std::span<const Node> rest(std::size_t first = 1) const noexcept { return std::span(parts).subspan(first); }

 private:
  template <class... Parts>
  static std::vector<Node> joined(Parts... parts) {
    std::vector<Node> all;
    all.reserve(sizeof...(parts));
    (all.push_back(std::move(parts)), ...);
    return all;
  }
};

struct Tree {
  Tokens tokens;             ///< owns the texts
  std::optional<Node> root;  ///< none: not parsed
  std::deque<Node> added;    ///< by lowering
};

/// Reads a whole answer. Never fails but by leaving no root; recursion is bounded by kMaxTreeDepth.
Tree parse(std::string_view text, Comma comma, const Vocabulary& vocabulary);

// ---- questions about the form of a tree that need no values

/// Whether `predicate` holds for a node of it.
template <class Predicate>
bool any_node(const Node& at, const Predicate& predicate) {
  return predicate(at) || std::ranges::any_of(at.parts, [&](const Node& part) { return any_node(part, predicate); });
}
/// Whether a variable occurs in it; words count as one.
inline bool has_symbols(const Node& at) noexcept {
  return any_node(at, [](const Node& part) { return part.is(Kind::symbol, Kind::words); });
}
inline bool has_symbol(const Node& at, std::string_view name) noexcept {
  return any_node(at, [name](const Node& part) { return part.is(Kind::symbol) && part.text == name; });
}
inline bool has_plus_minus(const Node& at) noexcept {
  return any_node(at, [](const Node& part) { return part.joint == 'P' || part.joint == 'M'; });
}
/// Its variables, with their indices.
std::set<std::string> variables_of(const Node& at);
/// Digits alone.
inline bool is_digits(const Node& at) noexcept {
  return at.is(Kind::number) && std::ranges::all_of(at.text, base::is_digit);
}
/// Of digits; nothing of anything else or beyond 64 bits.
std::optional<std::int64_t> integer_of(const Node& at) noexcept;
/// The letters of factors that stand next to each other; empty where there is anything else.
std::string_view letters_in_a_row(std::span<const Node> factors) noexcept;
/// Digits behind the point of a decimal, perhaps with a sign; 0 of anything else.
std::size_t places_of(const Node& at) noexcept;
/// One capital letter.
inline bool is_capital(const Node& at) noexcept {
  return at.is(Kind::symbol) && at.text.size() == 1 && at.text[0] <= 'Z';
}
/// ℝ, ℤ and the like.
inline bool is_number_set(const Node& at) noexcept { return at.is(Kind::symbol) && at.text.starts_with("\\mathbb"); }
/// The node, or what a sign alone stands before.
inline const Node& unsigned_of(const Node& at) noexcept {
  return at.is(Kind::sum) && at.parts.size() == 1 ? at[0] : at;
}
/// Whether it merely names a value, left of "… = value": no sum, power or inequality of variables.
bool is_name(const Node& at) noexcept;
/// The modulus of "3 mod 7", and of a relation that ends so; null: there is none.
const Node* modulus_of(const Node& at) noexcept;
/// The relation that holds when its sides are swapped; 0: nothing is known of it then.
char reversed(char code) noexcept;
inline bool is_order(char code) noexcept { return reversed(code) != code && reversed(code) != 0; }  ///< < > ≤ ≥
/// Operations, names and numbers as one text, whatever order they have where it says nothing.
std::string form_of(const Node& at);
/// Letters and digits of a text in lower case, with points and signs before digits and the names of LaTeX's commands
/// that lay nothing out.
std::string text_key(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

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
inline constexpr std::string_view kCases = "cases";  ///< text of a matrix that lists cases or a system of equations

/// Each comment lists what a node of the kind has: `text`, `code`, its parts in order, or links (Node::joint of its
/// parts).
enum class Kind : std::uint8_t {
  number,    ///< text
  symbol,    ///< text
  constant,  ///< code: p(π) e i o(∞) 0(∅)
  words,     ///< text
  sum,       ///< links: + − P(±) M(∓)
  product,   ///< links: * / m(mod), or the code of an operation whose meaning is unknown
  power,     ///< base, exponent
  root,      ///< radicand, degree if not 2
  /// Text: the function's name; if empty, parts[0] is the function. Other parts: arguments, index (link _), exponent
  /// (link ^).
  call,
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
  list,           ///< items; an item after "or" has link |
  tuple,          ///< items; brackets: `open` and `close`
  set,            ///< \{…\}
  set_builder,    ///< element, condition
  set_operation,  ///< links: U(∪) N(∩) D(∖)
  relation,       ///< links: relations as in TokenType::relation
  ratio,          ///< a : b : …
  quantity,       ///< number, words (a unit)
  matrix,         ///< parts: row-major entries; columns: entries per row; text: the environment, or kCases
  determinant,    ///< one part: a matrix
  dots,
};

struct Unreadable {
  std::string_view fault;
};

struct Node {
  Kind kind = Kind::number;
  char joint = 0;            ///< link: the sign before this node in its parent; 0: none
  char open = 0, close = 0;  ///< a tuple's brackets
  char code = 0;             ///< a leaf's or call's token code
  std::size_t columns = 0;
  std::int32_t depth = 1;  ///< height of the subtree, at most kMaxTreeDepth
  std::string_view text;
  std::vector<Node> parts;

  explicit Node(Kind of, std::string_view its_text = {}, char its_code = 0)
      : kind(of), code(its_code), text(its_text) {}
  Node(Kind of, std::vector<Node> its_parts);
  template <std::same_as<Node>... Parts>
  Node(Kind of, Node first, Parts... others) : Node(of, joined(std::move(first), std::move(others)...)) {}
  Node behind(char sign) && noexcept { return joint = sign, std::move(*this); }

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
  Tokens tokens;             ///< owns the nodes' texts
  std::optional<Node> root;  ///< none: parse error
  std::deque<Node> added;    ///< nodes that lowering adds
};

/// Parses an answer; never throws. kMaxTreeDepth bounds the recursion.
Tree parse(std::string_view text, Comma comma, const Vocabulary& vocabulary);

template <class Predicate>
bool any_node(const Node& at, const Predicate& predicate) {
  return predicate(at) || std::ranges::any_of(at.parts, [&](const Node& part) { return any_node(part, predicate); });
}
inline bool has_symbols(const Node& at) noexcept {
  return any_node(at, [](const Node& part) { return part.is(Kind::symbol, Kind::words); });
}
inline bool has_symbol(const Node& at, std::string_view name) noexcept {
  return any_node(at, [name](const Node& part) { return part.is(Kind::symbol) && part.text == name; });
}
inline bool has_plus_minus(const Node& at) noexcept {
  return any_node(at, [](const Node& part) { return part.joint == 'P' || part.joint == 'M'; });
}
std::set<std::string> variables_of(const Node& at);
inline bool is_digits(const Node& at) noexcept {
  return at.is(Kind::number) && std::ranges::all_of(at.text, base::is_digit);
}
/// Returns an integer node's value; none for other nodes, or beyond 64 bits.
std::optional<std::int64_t> integer_of(const Node& at) noexcept;
/// Returns the letters of adjacent single-letter factors, or "".
std::string_view letters_in_a_row(std::span<const Node> factors) noexcept;
/// Returns the number of decimal places of a number with or without sign; 0 for other nodes.
std::size_t places_of(const Node& at) noexcept;
inline bool is_capital(const Node& at) noexcept {
  return at.is(Kind::symbol) && at.text.size() == 1 && at.text[0] <= 'Z';
}
inline bool is_number_set(const Node& at) noexcept { return at.is(Kind::symbol) && at.text.starts_with("\\mathbb"); }
inline const Node& unsigned_of(const Node& at) noexcept {
  return at.is(Kind::sum) && at.parts.size() == 1 ? at[0] : at;
}
/// Returns whether the left side of "… = value" only names the value.
bool is_name(const Node& at) noexcept;
/// Returns the modulus of "3 mod 7", or of a relation that ends with one; else null.
const Node* modulus_of(const Node& at) noexcept;
/// Returns the code of the relation after swapping its sides (> for <), or 0.
char reversed(char code) noexcept;
inline bool is_order(char code) noexcept { return reversed(code) != code && reversed(code) != 0; }  ///< < > ≤ ≥
/// Returns a node as text, with its parts sorted where order is irrelevant.
std::string form_of(const Node& at);
/// Returns a text's comparison key: lowercase letters, digits, signs, points before digits, and names of LaTeX
/// commands.
std::string text_key(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

// Owns the form of an answer as a tree. Knows nothing of how it was written or what it is worth.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
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

using NodeIdx = std::int32_t;

struct Link {
  NodeIdx node = -1;
  char code = 0;  ///< what stands before it in its parent
};

struct Node {
  Kind kind = Kind::number;
  char open = 0, close = 0;  ///< of a tuple
  char code = 0;             ///< of a leaf: that of its token
  bool flag = false;         ///< list: of semicolons; number: in words; symbol: apart and upright or not, after a space
  std::int32_t columns = 0;  ///< of a matrix
  std::int32_t first = 0, count = 0;  ///< its links
  std::int32_t depth = 1;
  std::string_view text;
};

struct Tree {
  Tokens tokens;  ///< owns the texts
  std::vector<Node> nodes;
  std::vector<Link> links;
  NodeIdx root = -1;       ///< −1: not parsed
  std::string_view fault;  ///< why not, static text

  const Node& at(NodeIdx idx) const noexcept { return nodes[static_cast<std::size_t>(idx)]; }
  Link link(const Node& node, std::int32_t k) const noexcept {
    return links[static_cast<std::size_t>(node.first) + static_cast<std::size_t>(k)];
  }
  NodeIdx child(const Node& node, std::int32_t k) const noexcept { return link(node, k).node; }
  std::span<const Link> of(const Node& node) const noexcept {
    return {links.data() + node.first, static_cast<std::size_t>(node.count)};
  }
  /// −1 where one of the links is or where it would be deeper than kMaxTreeDepth.
  NodeIdx make(Kind kind, const std::vector<Link>& of, std::string_view text = {});
  NodeIdx constant(char code, std::string_view text) {
    const NodeIdx idx = make(Kind::constant, {}, text);
    nodes.back().code = code;
    return idx;
  }
  std::vector<Link> links_of(NodeIdx idx) const {
    const auto begin = links.begin() + at(idx).first;
    return {begin, begin + at(idx).count};
  }
};

/// A node of a tree, and what stands before it in its parent.
struct Ref {
  const Tree* tree = nullptr;
  NodeIdx idx = -1;
  char code = 0;

  const Node& operator*() const noexcept { return tree->at(idx); }
  const Node* operator->() const noexcept { return &tree->at(idx); }
  bool is(Kind kind) const noexcept { return tree->at(idx).kind == kind; }
  Ref operator[](std::int32_t k) const noexcept {
    const Link link = tree->link(**this, k);
    return {tree, link.node, link.code};
  }
  /// Its parts from the first on. (Views of the library are not read by every compiler yet.)
  struct Parts;
  Parts parts(std::int32_t first = 0) const noexcept;
};

struct Ref::Parts {
  struct Iterator {
    using value_type = Ref;
    using difference_type = std::ptrdiff_t;
    Ref of;
    std::int32_t k = 0;
    Ref operator*() const noexcept { return of[k]; }
    Iterator& operator++() noexcept { return ++k, *this; }
    Iterator operator++(int) noexcept { return {of, k++}; }
    bool operator==(const Iterator& other) const noexcept { return k == other.k; }
  };
  Ref of;
  std::int32_t first;
  Iterator begin() const noexcept { return {of, first}; }
  Iterator end() const noexcept { return {of, of->count}; }
};
inline Ref::Parts Ref::parts(std::int32_t first) const noexcept { return {*this, first}; }

/// Reads a whole answer. Never fails but by leaving root −1; recursion is bounded by kMaxTreeDepth.
Tree parse(std::string_view text, Comma comma, const Vocabulary& vocabulary);

// ---- questions about the form of a tree that need no values

/// Whether `predicate` holds for a node of it.
template <class Predicate>
bool any_node(Ref at, const Predicate& predicate) {
  return predicate(at) || std::ranges::any_of(at.parts(), [&](Ref part) { return any_node(part, predicate); });
}
/// Whether a variable occurs in it; words count as one.
bool has_symbols(Ref at) noexcept;
bool has_symbol(Ref at, std::string_view name) noexcept;
bool has_plus_minus(Ref at) noexcept;
/// Its variables, with their indices.
std::set<std::string> variables_of(Ref at);
/// Digits alone.
bool is_digits(Ref at) noexcept;
/// Of digits; nothing of anything else or beyond 64 bits.
std::optional<std::int64_t> integer_of(Ref at) noexcept;
/// One capital letter.
bool is_capital(Ref at) noexcept;
/// A product by · and / alone.
bool is_product_of_factors(Ref at) noexcept;
/// ℝ, ℤ and the like.
bool is_number_set(Ref at) noexcept;
/// The node, or what a sign alone stands before.
Ref unsigned_of(Ref at) noexcept;
/// Whether it merely names a value, left of "… = value": no sum, power or inequality of variables.
bool is_name(Ref at) noexcept;
/// The modulus of "3 mod 7", and of a relation that ends so.
std::optional<Ref> modulus_of(Ref at) noexcept;
/// The relation that holds when its sides are swapped.
char reversed(char code) noexcept;
inline bool is_order(char code) noexcept { return reversed(code) != code; }  ///< < > ≤ ≥
/// Operations, names and numbers as one text, whatever order they have where it says nothing.
std::string form_of(Ref at);
/// Letters and digits of a text in lower case, with points and signs before digits and the names of LaTeX's commands
/// that lay nothing out.
std::string text_key(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

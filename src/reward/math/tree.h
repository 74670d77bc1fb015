// Owns the form of an answer as a tree. Knows nothing of how it was written or what it is worth.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

inline constexpr int kMaxTreeDepth = 100;

enum class Kind : std::uint8_t {
  number,    ///< text
  symbol,    ///< text
  constant,  ///< text: pi, e, i, infinity, empty
  words,     ///< text
  sum,       ///< links: + − P(±) M(∓)
  product,   ///< links: * / m(mod), or another code for an operation without a law here
  power,     ///< base, exponent
  root,      ///< radicand, degree if not 2
  call,      ///< text: function; arguments; under an index where `indexed`: the last one
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
  list,           ///< separated by commas, semicolons, and, or; `semicolons`
  tuple,          ///< in brackets: code and closing tell which
  set,            ///< \{…\}
  set_builder,    ///< element, condition
  set_operation,  ///< links: U N D
  relation,       ///< links: relations as in TokenType::relation
  ratio,          ///< a : b : …
  quantity,       ///< number, words: a unit
  matrix,         ///< entries by rows; `columns`
  determinant,    ///< of a matrix
  dots,
};

struct Node;
using NodeIdx = std::int32_t;

struct Link {
  NodeIdx node = -1;
  char code = 0;  ///< what stands before it in its parent
};

struct Node {
  Kind kind = Kind::number;
  char open = 0, close = 0;           ///< of a tuple
  bool flag = false;                  ///< list: of semicolons; call: indexed; number: in parentheses
  std::int32_t columns = 0;           ///< of a matrix
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
  const Node& child_at(const Node& node, std::int32_t k) const noexcept { return at(child(node, k)); }
};

/// Reads a whole answer. Never fails but by leaving root −1; recursion is bounded by kMaxTreeDepth.
Tree parse(std::string_view text, Comma comma);

}  // namespace qrl::reward::math

// Owns the state of a parse: a Pratt parser, whose operators and their binding powers are a table in parser.cpp.
#pragma once

#include <algorithm>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// What joins an operand to the one before it where more than one sign decides.
enum class Joint : unsigned char { none, verb, divides, modulo, unit, ratio, united, times, beside };

/// An operator behind an operand.
struct Operator {
  Joint joint;
  TokenType type;
  std::string_view codes;  ///< empty: any; of a joint its own
  int left, right;         ///< binding powers: it takes an operand when `left` is at least what the context asks for
  Kind kind;
  bool has(char code) const noexcept { return codes.empty() || codes.find(code) != std::string_view::npos; }
};
std::span<const Operator> operators() noexcept;
/// The unit of degrees by its letter, C or F; empty: no such letter.
std::string_view degrees(std::string_view letter) noexcept;

class Parser {
 public:
  Parser(Tree& tree, const Vocabulary& vocabulary) : tree_(tree), tokens_(tree.tokens.tokens), words_(vocabulary) {}
  void run();

 private:
  const Token& now(std::size_t ahead = 0) const noexcept { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  static bool is(const Token& token, TokenType type, char code) noexcept {
    return token.type == type && token.code == code;
  }
  bool is(TokenType type, char code) const noexcept { return is(now(), type, code); }
  bool is_op(char code) const noexcept { return is(TokenType::op, code); }
  bool take(TokenType type, char code) noexcept;
  NodeIdx fail(Fault why) noexcept;
  NodeIdx make(Kind kind, const std::vector<Link>& links, std::string_view text = {});
  Node& made(NodeIdx idx) noexcept { return tree_.nodes[static_cast<std::size_t>(idx)]; }
  Ref ref(NodeIdx idx) const noexcept { return {&tree_, idx}; }
  bool is_kind(NodeIdx idx, Kind kind) const noexcept { return idx >= 0 && tree_.at(idx).kind == kind; }

  // ---- parser.cpp: operators and lists
  NodeIdx expression(int least);
  const Operator* next_operator(NodeIdx left) const noexcept;
  Joint joint_behind(NodeIdx left) const noexcept;
  NodeIdx continue_with(const Operator& op, NodeIdx left);
  NodeIdx several(const Operator& op, NodeIdx left);
  NodeIdx power(NodeIdx base);
  char take_lone(std::string_view signs) noexcept;
  NodeIdx postfix(NodeIdx idx);
  NodeIdx degree(NodeIdx of);
  NodeIdx unit_behind(NodeIdx number);
  void pass_exponent() noexcept;
  NodeIdx list(TokenType closing);
  NodeIdx group(std::vector<Link> items);
  bool ends_list(TokenType closing) const noexcept;
  bool begins_operand() const noexcept;
  bool begins_value(std::size_t ahead) const noexcept;
  bool begins_unit() const noexcept;
  bool modulus_follows() const noexcept;
  bool equation_follows() const noexcept;
  /// The text from a token to the one before the next.
  std::string_view span_of(std::size_t first) const noexcept;

  // ---- primaries.cpp
  NodeIdx prefix();
  NodeIdx signed_operand();
  NodeIdx relation_to(NodeIdx bound, char code);
  NodeIdx relation_to_zero(char code) { return relation_to(make(Kind::number, {}, "0"), code); }
  NodeIdx words();
  NodeIdx argument();
  NodeIdx leaf(Kind kind);
  NodeIdx number();
  bool calls(NodeIdx function) const noexcept;
  NodeIdx call_of(NodeIdx function);
  NodeIdx root();
  NodeIdx function(const Token& token);
  NodeIdx plain_argument();
  NodeIdx absolute();
  NodeIdx bracketed(char open);
  NodeIdx inside(char open);
  bool closes_outward() const noexcept;
  bool begins_builder() const noexcept;
  void split_thousands(std::size_t open);

  // ---- environments.cpp
  NodeIdx environment(std::string_view name);
  void lay_out_rows(std::size_t begin);
  NodeIdx entry();

  Tree& tree_;
  std::vector<Token>& tokens_;
  const Vocabulary& words_;
  std::size_t at_ = 0;
  int depth_ = 0;
  struct Context {
    int bars = 0;            ///< open
    bool in_set = false;     ///< a bar or colon separates the element of a set from its condition
    bool separated = false;  ///< the bracket has several members
  };
  Context inner_;  ///< of the bracket that is read
  bool ok_ = true;
};

}  // namespace qrl::reward::math

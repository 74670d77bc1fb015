// Owns the state of a Pratt parser; its operators and binding powers are a table (tables.cpp).
#pragma once

#include <algorithm>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// Ways in which an operand follows another. All except `none` have no operator token.
enum class Joint : unsigned char { none, verb, divides, modulo, unit, united, times, beside, equation };

struct Operator {
  Joint joint;
  TokenType type;
  /// Codes of matching tokens; empty: all codes. If `joint` is not none: the link of the right operand.
  std::string_view codes;
  int left, right;  ///< binding powers: the operator applies if `left` is at least the context's minimum
  Kind kind;
  bool has(char code) const noexcept { return codes.empty() || codes.find(code) != std::string_view::npos; }
};
std::span<const Operator> operators() noexcept;

/// Members throw Unreadable if the text is not in the grammar.
class Parser {
 public:
  Parser(std::vector<Token>& tokens, const Vocabulary& vocabulary) : tokens_(tokens), words_(vocabulary) {}
  Node run() {
    Node all = list();
    if (now().type != TokenType::end) fail(Fault::kNoOperationBetween);
    return all;
  }

 private:
  [[noreturn]] static void fail(std::string_view why) { throw Unreadable{why}; }
  const Token& now(std::size_t ahead = 0) const noexcept { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& before() const noexcept { return at_ > 0 ? tokens_[at_ - 1] : tokens_.back(); }
  static bool is(const Token& token, TokenType type, char code) noexcept {
    return token.type == type && token.code == code;
  }
  template <std::same_as<TokenType>... Types>
  static bool is_one_of(const Token& token, Types... types) noexcept {
    return ((token.type == types) || ...);
  }
  bool is(TokenType type, char code) const noexcept { return is(now(), type, code); }
  bool is_op(char code) const noexcept { return is(now(), TokenType::op, code); }
  const Token& next() noexcept { return tokens_[at_++]; }
  bool take(TokenType type, char code) noexcept { return is(type, code) && ++at_ != 0; }
  Node leaf(Kind kind) {
    const Token& token = next();
    return Node(kind, token.text, token.code);
  }
  std::string_view span_of(std::size_t first) const noexcept {
    const char* const begin = tokens_[first].text.data();
    return {begin, static_cast<std::size_t>(before().text.data() + before().text.size() - begin)};
  }
  bool begins_value(std::size_t ahead) const noexcept {
    using enum TokenType;
    while (is(now(ahead), op, '-') || now(ahead).type == open) ++ahead;
    return is_one_of(now(ahead), number, fraction, root) || is(now(ahead), constant, 'p');
  }
  bool ends_element() const noexcept { return inner_ == 'S' && (now().type == TokenType::bar || is_op(':')); }
  bool ends_list() const noexcept {
    using enum TokenType;
    return is_one_of(now(), end, close, cell, newline, finish) || closes_outward();
  }

  // ---- parser.cpp: operators
  Node expression(int least);
  const Operator* next_operator(const Node& left) const noexcept;
  Joint joint_behind(const Node& left) const noexcept;
  Node continue_with(const Operator& op, Node left);
  Node several(const Operator& op, Node left);
  Node separated(const Operator& op, Node first);
  Node power(Node base);
  char take_lone(std::string_view signs) noexcept;
  Node degree(Node of);
  Node unit_behind(Node number);
  bool begins_operand() const noexcept;
  bool begins_unit() const noexcept;
  bool equation_follows() const noexcept;

  // ---- primaries.cpp: operands
  Node prefix();
  Node signed_operand();
  static Node relation_to(Node bound, char code) {
    return Node{Kind::relation, Node(Kind::words), std::move(bound).behind(code)};
  }
  static Node relation_to_zero(char code) { return relation_to(Node(Kind::number, "0"), code); }
  Node words();
  Node argument();
  Node number();
  Node called(Node function);
  Node function(const Token& token);
  Node plain_argument();

  // ---- brackets.cpp: lists, brackets and environments
  Node list();
  Node bracketed(char open);
  bool closes_outward() const noexcept;
  bool may_be_pair() const noexcept;
  Node environment();
  void lay_out_rows(std::size_t begin);

  std::vector<Token>& tokens_;
  const Vocabulary& words_;
  std::size_t at_ = 0;
  int depth_ = 0;
  char inner_ = 0;  ///< '|' within bars; 'S' in a set's element, before its bar or colon
};

}  // namespace qrl::reward::math

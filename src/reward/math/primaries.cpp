#include <string>
#include <utility>

#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool are_below(std::string_view one, std::string_view other) noexcept {
  const auto above = integer_of(Node(Kind::number, one)), under = integer_of(Node(Kind::number, other));
  return above && under && *above < *under;
}

}  // namespace

Node Parser::prefix() {
  const Token token = now();
  const T type = token.type;
  if (type == T::number) return number();
  if (type == T::symbol) return called(leaf(Kind::symbol));
  if (type == T::constant) return leaf(Kind::constant);
  if (type == T::dots) return leaf(Kind::dots);
  if (type == T::word) return words();
  if (type == T::open || is(T::close, ']')) return bracketed(token.code);  // ]2, 5[
  if (type == T::begin) return environment();
  if (type == T::op) return signed_operand();
  const bool braced = is(before(), T::open, '{');
  ++at_;
  if (type == T::function) return function(token);
  if (type == T::root) {
    std::optional<Node> degree;
    if (take(T::open, '[')) {
      degree = list();
      if (!take(T::close, ']')) fail(Fault::kOpenBracket);
    }
    // Reads \sqrt12 as √12, although LaTeX prints √1 2.
    Node radicand = now().type == T::number ? leaf(Kind::number) : argument();
    return degree ? Node{Kind::root, std::move(radicand), std::move(*degree)} : Node{Kind::root, std::move(radicand)};
  }
  if (type == T::bar) {
    const char outer = std::exchange(inner_, '|');
    Node content = expression(40);
    inner_ = outer;
    if (next().type != T::bar) fail(Fault::kOpenBracket);
    return Node{Kind::absolute, std::move(content)};
  }
  if (type == T::fraction) {
    Node above = argument();
    return Node{token.code == 'b' ? Kind::binomial : Kind::product, std::move(above), argument().behind('/')};
  }
  if (type == T::relation && braced) return relation_to(expression(40), token.code);  // \mathbb{R}_{>0}
  if (type != T::relation || !has("=at", token.code)) fail(Fault::kOperandMissing);
  return expression(11);
}

Node Parser::signed_operand() {
  const char code = now().code;
  if (has("_^", code)) return Node(Kind::words);  // {}_{10}C_3
  if (!has("+-PM", code)) fail(Fault::kOperandMissing);
  ++at_;
  Node operand = expression(59);
  if (code == '+') return operand;
  // Reads −5 % as (−5) %, so that only the percent sign distinguishes it from −5.
  if (!operand.is(Kind::percent, Kind::degree, Kind::quantity)) return Node{Kind::sum, std::move(operand).behind(code)};
  operand.parts[0] = Node{Kind::sum, std::move(operand.parts[0]).behind(code)};
  return Node{operand.kind, std::move(operand.parts)};
}

Node Parser::words() {
  if (words_.is(WordClass::hedge, now().text) && now(1).type != T::word && now(1).type != T::end) {
    ++at_;
    return prefix();
  }
  const std::size_t first = at_;
  while (now().type == T::word && (at_ == first || !words_.is(WordClass::verb, now().text) || !begins_value(1))) ++at_;
  const std::string_view all = span_of(first);
  const std::string key = text_key(all, words_);
  const bool reals = key == "all" || words_.is(WordClass::reals, key);
  if (now().type == T::symbol && now(1).type == T::relation && reals) return prefix();   // all x < 2
  if (now().type == T::symbol && now(1).type == T::end && reals && key != "all") ++at_;  // all real x
  return Node(Kind::words, all);
}

/// Parses the argument of \frac, \sqrt or _: a group in braces or one operand. Takes only the first digit of a number
/// without braces.
Node Parser::argument() {
  if (take_lone("+") != 0) return relation_to_zero('>');  // \mathbb{R}_+
  if (is(T::open, '{')) return bracketed('{');
  if (now().type != T::number) return expression(70);
  Token& token = tokens_[at_];  // \frac12
  Node digit(Kind::number, token.text.substr(0, 1));
  token.text.remove_prefix(1);
  if (token.text.empty()) ++at_;
  return digit;
}

/// Parses a number or a mixed number (11 5/6, 1\frac{4}{5}). Throws for 11 7/6.
Node Parser::number() {
  const Token whole = now();
  Node read = leaf(Kind::number);
  if (now().type == T::number && is(now(1), T::op, '/') && now(2).type == T::number) {
    if (now().newline || !is_digits(read) || !are_below(now().text, now(2).text)) fail(Fault::kNoOperationBetween);
    Node above = leaf(Kind::number);
    ++at_;
    return Node{Kind::mixed, std::move(read), Node{Kind::product, std::move(above), leaf(Kind::number).behind('/')}};
  }
  if (at_ == 1 && now().type == T::dots && now(1).type == T::end) ++at_;  // 18...
  std::size_t close = 2;
  while (now(close).type == T::word) ++close;
  if (is(T::open, '(') && now(1).type == T::number && now(close).type == T::close &&
      (whole.code == 'w' || now(1).code == 'w')) {
    if (now(1).text != whole.text) fail(Fault::kUnfitWords);
    at_ += close + 1;
    return read;
  }
  const std::string_view digits = now(1).text;  // \frac45
  const bool braced = is(now(1), T::open, '{') && now(3).type == T::close && now(6).type == T::close;
  const bool proper = braced ? are_below(now(2).text, now(5).text)
                             : digits.size() == 2 && are_below(digits.substr(0, 1), digits.substr(1));
  const bool mixed = is(T::fraction, '/') && is_digits(read) && proper;
  return mixed ? Node{Kind::mixed, std::move(read), prefix()} : read;
}

/// Parses a call if the bracket after a name holds arguments, not a factor. f(…), f'(…) and f^{-1}(…) are always calls.
/// P(A) and Y(t) are calls only with one symbol or number.
Node Parser::called(Node function) {
  const Node& name = function.is(Kind::symbol) ? function : function[0];
  if (!is(T::open, '(') || !name.is(Kind::symbol)) return function;
  const bool one = is_one_of(now(1), T::symbol, T::number, T::constant) && is(now(2), T::close, ')');
  const bool event = now(1).type == T::symbol && now(2).type == T::relation && is_capital(name);  // P(X = 2)
  const bool calls = words_.is(WordClass::calling, name.text) || event ||
                     (one && (!function.is(Kind::symbol) || words_.is(WordClass::may_call, name.text)));
  return calls ? Node{Kind::call, std::move(function), bracketed('(')} : function;
}

/// Parses a function: sin x, sin^2 x, log_2 8, max(a, b), \sum_{k=0}^{n} k. The node's parts are the arguments, then
/// the index (link `_`) and the exponent (link `^`).
Node Parser::function(const Token& token) {
  std::vector<Node> scripts, parts;
  while (is_op('_') || is_op('^')) {
    const char script = next().code;
    scripts.push_back(argument().behind(script));
  }
  if (is_one_of(now(), T::close, T::end, T::relation)) {  // m_{\max}
    if (!scripts.empty()) fail(Fault::kOperandMissing);
    return Node(Kind::symbol, token.text);
  }
  parts.push_back(now().type == T::open ? bracketed(now().code) : plain_argument());
  std::ranges::move(scripts, std::back_inserter(parts));
  Node call{Kind::call, std::move(parts)};
  call.text = token.text;
  call.code = token.code;
  return call;
}

/// Parses a function's argument without brackets, up to the next function, sum or bracket.
Node Parser::plain_argument() {
  if (is_op('-')) return signed_operand();
  std::vector<Node> factors;
  factors.push_back(expression(59));
  while (begins_operand() && !is_one_of(now(), T::function, T::open) && !begins_unit())
    factors.push_back(expression(59).behind('*'));
  const bool simple = factors.size() == 1 && factors[0].is(Kind::number, Kind::symbol, Kind::constant);
  if (simple && is_op('/') && now(1).type == T::number) {  // sin pi/6
    ++at_;
    factors.push_back(expression(59).behind('/'));
  }
  return factors.size() == 1 ? std::move(factors[0]) : Node{Kind::product, std::move(factors)};
}

}  // namespace qrl::reward::math

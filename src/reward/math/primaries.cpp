// Operands: numbers, names and functions.
#include <string>
#include <utility>

#include "base/ascii.h"
#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

/// Of a token of digits.
std::optional<std::int64_t> integer_of(const Token& token) noexcept {
  return math::integer_of(Node(token.type == T::number ? Kind::number : Kind::words, token.text));
}

/// Whether both are of digits and the first is below the other.
bool are_below(const Token& one, const Token& other) noexcept {
  const auto above = integer_of(one), under = integer_of(other);
  return above && under && *above < *under;
}

}  // namespace

Node Parser::leaf(Kind kind) {
  const Token& token = next();
  Node node(kind, token.text);
  if (kind == Kind::constant) node.code = token.code;
  return node;
}

Node Parser::prefix() {
  const Token token = now();
  switch (token.type) {
    case T::number:
      return number();
    case T::symbol: {
      Node symbol = leaf(Kind::symbol);
      return calls(symbol) ? call_of(std::move(symbol)) : symbol;
    }
    case T::constant:
      return leaf(Kind::constant);
    case T::word:
      return words();
    case T::function:
      ++at_;
      return function(token);
    case T::fraction: {
      ++at_;
      Node above = argument();
      return Node{token.code == 'b' ? Kind::binomial : Kind::product, std::move(above), argument().behind('/')};
    }
    case T::root:
      ++at_;
      return root();
    case T::open:
      return bracketed(token.code);
    case T::close:
      if (token.code == ']') return bracketed(']');  // ]2, 5[
      break;
    case T::bar:
      return absolute();
    case T::begin:
      return environment();
    case T::dots:
      return leaf(Kind::dots);
    case T::relation: {
      const bool braced = is(before(), T::open, '{');
      ++at_;
      if (braced) return relation_to(expression(40), token.code);  // \mathbb{R}_{>0}
      if (token.code == '=' || token.code == 'a' || token.code == 't') return expression(11);
      break;
    }
    case T::op:
      return signed_operand();
    default:
      break;
  }
  fail(Fault::operand_missing);
}

Node Parser::signed_operand() {
  const char code = now().code;
  if (code == '_' || code == '^') return Node(Kind::words);  // {}_{10}C_3
  if (code != '+' && code != '-' && code != 'P' && code != 'M') fail(Fault::operand_missing);
  ++at_;
  Node operand = expression(59);
  if (code == '+') return operand;
  // −5 % is (−5) %, so that it differs from −5 by its mark alone
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

/// The argument of \frac, \sqrt, _: a group or one operand; of digits without braces one.
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

/// A number, alone or as the whole part of a mixed one: 11 5/6, 1\frac{4}{5}; with a fraction that is not proper it
/// makes no sense as either. "5 (five)" is one number.
Node Parser::number() {
  const Token whole = now();
  Node read = leaf(Kind::number);
  if (now().type == T::number && is(now(1), T::op, '/') && now(2).type == T::number) {
    if (now().newline || !integer_of(whole) || !are_below(now(), now(2))) fail(Fault::no_operation_between);
    Node above = leaf(Kind::number);
    ++at_;
    return Node{Kind::mixed, std::move(read), Node{Kind::product, std::move(above), leaf(Kind::number).behind('/')}};
  }
  if (at_ == 1 && now().type == T::dots && now(1).type == T::end) ++at_;  // 18...
  std::size_t close = 2;
  while (now(close).type == T::word) ++close;
  if (is(T::open, '(') && now(1).type == T::number && now(close).type == T::close &&
      (whole.code == 'w' || now(1).code == 'w')) {
    if (now(1).text != whole.text) fail(Fault::unfit_words);
    at_ += close + 1;
    return read;
  }
  if (!is(T::fraction, '/') || !integer_of(whole)) return read;
  const std::string_view digits = now(1).text;  // \frac45
  const bool braced = is(now(1), T::open, '{') && now(3).type == T::close && now(6).type == T::close;
  const bool mixed =
      braced ? are_below(now(2), now(5)) : integer_of(now(1)) && digits.size() == 2 && digits[0] < digits[1];
  return mixed ? Node{Kind::mixed, std::move(read), prefix()} : read;
}

/// Whether "(" behind a name calls it rather than multiplies: f(…) always, P(A) and Y(t) for one symbol or number.
bool Parser::calls(const Node& function) const noexcept {
  if (!is(T::open, '(')) return false;
  const bool one = is_one_of(now(1), T::symbol, T::number, T::constant) && is(now(2), T::close, ')');
  if (!function.is(Kind::symbol)) return one;
  if (words_.is(WordClass::calling, function.text)) return true;
  const bool event = now(1).type == T::symbol && now(2).type == T::relation && is_capital(function);  // P(X = 2)
  return event || (one && words_.is(WordClass::may_call, function.text));
}

Node Parser::call_of(Node function) { return Node{Kind::call, std::move(function), bracketed('(')}; }

Node Parser::root() {
  std::optional<Node> degree;
  if (take(T::open, '[')) {
    degree = list();
    expect(T::close, ']');
  }
  const bool number = now().type == T::number;  // \sqrt12 is √12, whatever LaTeX shows
  Node radicand = is(T::open, '(') ? bracketed('(') : number ? leaf(Kind::number) : argument();
  return degree ? Node{Kind::root, std::move(radicand), std::move(*degree)} : Node{Kind::root, std::move(radicand)};
}

/// sin x, sin^2 x, log_2 8, max(a, b), \sum_{k=0}^{n} k. Parts: arguments; `_` index; `^` exponent of the function.
Node Parser::function(const Token& token) {
  std::vector<Node> scripts, parts;
  while (is_op('_') || is_op('^')) {
    const char script = next().code;
    scripts.push_back(argument().behind(script));
  }
  while (take(T::op, '\'')) {
  }
  if (is_one_of(now(), T::close, T::end, T::relation)) {  // m_{\max}
    if (!scripts.empty()) fail(Fault::operand_missing);
    return Node(Kind::symbol, token.text);
  }
  const auto law = static_cast<Law>(token.code);
  if (law == Law::big) parts.push_back(expression(50));
  else if (now().type != T::open) parts.push_back(plain_argument());
  else {
    parts.push_back(bracketed(now().code));
    while (law == Law::stack && is(T::open, '{')) parts.push_back(bracketed('{'));
  }
  std::ranges::move(scripts, std::back_inserter(parts));
  Node call{Kind::call, std::move(parts)};
  call.text = token.text;
  call.code = token.code;
  return call;
}

/// What stands behind a function without brackets: factors up to the next function, sum or bracket.
Node Parser::plain_argument() {
  if (is_op('-')) return signed_operand();
  std::vector<Node> factors;
  while (factors.empty() || (begins_operand() && !is_one_of(now(), T::function, T::open) && !begins_unit())) {
    factors.push_back(expression(59).behind(factors.empty() ? char{0} : '*'));
    const bool simple = factors[0].is(Kind::number, Kind::symbol, Kind::constant);
    if (is_op('/') && now(1).type == T::number && factors.size() == 1 && simple) {  // sin pi/6
      ++at_;
      factors.push_back(expression(59).behind('/'));
      break;
    }
  }
  return factors.size() == 1 ? std::move(factors[0]) : Node{Kind::product, std::move(factors)};
}

Node Parser::absolute() {
  const Context outer = std::exchange(inner_, {.bars = inner_.bars + 1});
  while (now().type == T::bar) ++at_;  // ‖x‖ written ||x||
  Node content = expression(40);
  inner_ = outer;
  if (now().type != T::bar) fail(Fault::open_bracket);
  ++at_;
  return Node{Kind::absolute, std::move(content)};
}

}  // namespace qrl::reward::math

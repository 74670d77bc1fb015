// Operands: numbers, names and functions.
#include <string>
#include <utility>

#include "base/ascii.h"
#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool digits(const Token& token) noexcept {
  return token.type == T::number && std::all_of(token.text.begin(), token.text.end(), base::is_digit);
}

/// Whether b is above a, both as digits.
bool below(std::string_view a, std::string_view b) noexcept {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace

NodeIdx Parser::leaf(Kind kind) {
  const Token token = now();
  ++at_;
  const NodeIdx idx = make(kind, {}, token.text);
  if (ok_) made(idx).flag = token.code == 'w', made(idx).code = kind == Kind::constant ? token.code : '\0';
  return idx;
}

NodeIdx Parser::prefix() {
  if (!ok_) return -1;
  const Token token = now();
  switch (token.type) {
    case T::number:
      return number();
    case T::symbol: {
      const NodeIdx symbol = leaf(Kind::symbol);
      if (ok_) made(symbol).flag = token.space;
      return ok_ && calls(symbol) ? call_of(symbol) : symbol;
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
      const NodeIdx above = argument();
      const NodeIdx under = argument();
      return make(token.code == 'b' ? Kind::binomial : Kind::product, {{above, 0}, {under, '/'}});
    }
    case T::root:
      ++at_;
      return root();
    case T::open:
      return bracketed(token.code);
    case T::close:
      return token.code == ']' ? bracketed(']') : fail(Fault::operand_missing);  // ]2, 5[
    case T::bar:
      return absolute();
    case T::begin:
      return environment(token.text);
    case T::dots:
      return leaf(Kind::dots);
    case T::relation: {
      const bool braced = at_ > 0 && is(tokens_[at_ - 1], T::open, '{');
      ++at_;
      if (!braced)
        return token.code == '=' || token.code == 'a' || token.code == 't' ? expression(11)
                                                                           : fail(Fault::operand_missing);
      return relation_to(expression(40), token.code);  // \mathbb{R}_{>0}
    }
    case T::op:
      return signed_operand();
    default:
      return fail(Fault::operand_missing);
  }
}

/// What is left of a relation whose other side is an empty name.
NodeIdx Parser::relation_to(NodeIdx bound, char code) {
  return make(Kind::relation, {{make(Kind::words, {}), 0}, {bound, code}});
}

NodeIdx Parser::signed_operand() {
  const char code = now().code;
  if (code == '_' || code == '^') return make(Kind::words, {});  // {}_{10}C_3
  if (code != '+' && code != '-' && code != 'P' && code != 'M') return fail(Fault::operand_missing);
  ++at_;
  const NodeIdx operand = expression(59);
  if (code == '+' || !ok_) return operand;
  const Kind kind = tree_.at(operand).kind;  // −5 % is (−5) %, so that it differs from −5 by its mark alone
  if (kind != Kind::percent && kind != Kind::degree && kind != Kind::quantity)
    return make(Kind::sum, {{operand, code}});
  std::vector<Link> links = tree_.links_of(operand);
  links[0].node = make(Kind::sum, {{links[0].node, code}});
  return make(kind, links);
}

NodeIdx Parser::words() {
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
  return make(Kind::words, {}, all);
}

/// The argument of \frac, \sqrt, _: a group or one operand; of digits without braces one.
NodeIdx Parser::argument() {
  if (!ok_) return -1;
  if (take_lone("+") != 0) return relation_to_zero('>');  // \mathbb{R}_+
  if (is(T::open, '{')) return bracketed('{');
  if (now().type == T::number) {  // \frac12
    Token& token = tokens_[at_];
    const NodeIdx digit = make(Kind::number, {}, token.text.substr(0, 1));
    token.text.remove_prefix(1);
    if (token.text.empty()) ++at_;
    return digit;
  }
  return expression(70);
}

/// A number, alone or as the whole part of a mixed one: 11 5/6, 1\frac{4}{5}; with a fraction that is not proper it
/// makes no sense as either. "5 (five)" is one number.
NodeIdx Parser::number() {
  const Token whole = now();
  const NodeIdx idx = leaf(Kind::number);
  if (now().type == T::number && is(now(1), T::op, '/') && now(2).type == T::number) {
    if (now().newline || !digits(whole) || !digits(now()) || !digits(now(2)) || !below(now().text, now(2).text))
      return fail(Fault::no_operation_between);
    const NodeIdx above = leaf(Kind::number);
    ++at_;
    return make(Kind::mixed, {{idx, 0}, {make(Kind::product, {{above, 0}, {leaf(Kind::number), '/'}}), 0}});
  }
  if (at_ == 1 && now().type == T::dots && now(1).type == T::end) ++at_;  // 18...
  std::size_t close = 2;
  while (now(close).type == T::word) ++close;
  if (is(T::open, '(') && now(1).type == T::number && now(close).type == T::close &&
      (whole.code == 'w' || now(1).code == 'w')) {
    if (now(1).text != whole.text) return fail(Fault::unfit_words);
    at_ += close + 1;
    return idx;
  }
  if (!is(T::fraction, '/') || !digits(whole)) return idx;
  const bool braced = is(now(1), T::open, '{');
  const std::string_view above = braced ? now(2).text : now(1).text.substr(0, 1);
  const std::string_view under =
      braced ? now(5).text : now(1).text.substr(std::min<std::size_t>(now(1).text.size(), 1));
  const bool mixed = braced ? digits(now(2)) && now(3).type == T::close && digits(now(5)) && now(6).type == T::close
                            : digits(now(1)) && now(1).text.size() == 2;
  return mixed && below(above, under) ? make(Kind::mixed, {{idx, 0}, {prefix(), 0}}) : idx;
}

/// Whether "(" behind a name calls it rather than multiplies: f(…) always, P(A) and Y(t) for one symbol or number.
bool Parser::calls(NodeIdx function) const noexcept {
  if (!is(T::open, '(')) return false;
  const T first = now(1).type;
  const bool one = (first == T::symbol || first == T::number || first == T::constant) && is(now(2), T::close, ')');
  if (!is_kind(function, Kind::symbol)) return one;
  const std::string_view name = tree_.at(function).text;
  if (words_.is(WordClass::calling, name)) return true;
  const bool event = first == T::symbol && now(2).type == T::relation && is_capital(ref(function));  // P(X = 2)
  return event || (one && words_.is(WordClass::may_call, name));
}

NodeIdx Parser::call_of(NodeIdx function) { return make(Kind::call, {{function, 0}, {bracketed('('), 0}}); }

NodeIdx Parser::root() {
  NodeIdx degree = -1;
  if (take(T::open, '[')) {
    degree = list(T::close);
    if (!take(T::close, ']')) return fail(Fault::open_bracket);
  }
  const bool number = now().type == T::number;  // \sqrt12 is √12, whatever LaTeX shows
  const NodeIdx radicand = is(T::open, '(') ? bracketed('(') : number ? leaf(Kind::number) : argument();
  return degree < 0 ? make(Kind::root, {{radicand, 0}}) : make(Kind::root, {{radicand, 0}, {degree, 0}});
}

/// sin x, sin^2 x, log_2 8, max(a, b), \sum_{k=0}^{n} k. Links: arguments; `_` index; `^` exponent of the function.
NodeIdx Parser::function(const Token& token) {
  std::vector<Link> links;
  NodeIdx index = -1, exponent = -1;
  while (ok_ && (is_op('_') || is_op('^'))) {
    const bool lower = is_op('_');
    ++at_;
    (lower ? index : exponent) = argument();
  }
  while (take(T::op, '\'')) {
  }
  if (now().type == T::close || now().type == T::end || now().type == T::relation)  // m_{\max}
    return index < 0 && exponent < 0 ? make(Kind::symbol, {}, token.text) : fail(Fault::operand_missing);
  const auto law = static_cast<Law>(token.code);
  if (law == Law::big) {
    links.push_back({expression(50), 0});
  } else if (now().type == T::open) {
    links.push_back({bracketed(now().code), 0});
    while (ok_ && law == Law::stack && is(T::open, '{')) links.push_back({bracketed('{'), 0});
  } else {
    links.push_back({plain_argument(), 0});
  }
  if (index >= 0) links.push_back({index, '_'});
  if (exponent >= 0) links.push_back({exponent, '^'});
  const NodeIdx call = make(Kind::call, links, token.text);
  if (ok_) made(call).code = token.code;
  return call;
}

/// What stands behind a function without brackets: factors up to the next function, sum or bracket.
NodeIdx Parser::plain_argument() {
  if (is_op('-')) return signed_operand();
  std::vector<Link> links;
  while (ok_ && (links.empty() ||
                 (begins_operand() && now().type != T::function && now().type != T::open && !begins_unit()))) {
    links.push_back({expression(59), links.empty() ? char{0} : '*'});
    const Kind first = ok_ ? tree_.at(links[0].node).kind : Kind::words;
    const bool simple = first == Kind::number || first == Kind::symbol || first == Kind::constant;
    if (ok_ && is_op('/') && now(1).type == T::number && links.size() == 1 && simple) {  // sin pi/6
      ++at_;
      links.push_back({expression(59), '/'});
      break;
    }
  }
  return links.size() == 1 ? links.front().node : make(Kind::product, links);
}

NodeIdx Parser::absolute() {
  ++at_;
  const Context outer = std::exchange(inner_, {.bars = inner_.bars + 1});
  while (now().type == T::bar) ++at_;  // ‖x‖ written ||x||
  const NodeIdx inside = expression(40);
  inner_ = outer;
  if (!ok_ || now().type != T::bar) return fail(Fault::open_bracket);
  ++at_;
  return make(Kind::absolute, {{inside, 0}});
}

}  // namespace qrl::reward::math

// Lists, and operands in brackets: tuples, intervals and sets.
#include <utility>

#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

/// Whether a token between items stands there.
bool is_between(const Token& token) noexcept {
  return token.type == T::relation || token.type == T::separator || token.type == T::word ||
         (token.type == T::op && std::string_view("UND").find(token.code) != std::string_view::npos);
}

char closing_of(char open) noexcept { return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : open; }

}  // namespace

/// {x | …} and {x ∈ S : …} with plain braces, which LaTeX does not show.
bool Parser::begins_builder() const noexcept {
  if (at_ > 1 && !is_between(tokens_[at_ - 2])) return false;
  const std::size_t bar = is(now(1), T::relation, 'e') && now(2).type == T::symbol ? 3 : 1;
  return now().type == T::symbol && (now(bar).type == T::bar || is(now(bar), T::op, ':'));
}

/// Whether "[" stands where nothing can begin: behind the last member of ]2, 5[.
bool Parser::closes_outward() const noexcept {
  if (!is(T::open, '[') || !inner_.separated) return false;
  const bool mark = before().type == T::op && std::string_view("!%d").find(before().code) != std::string_view::npos;
  const bool operand = is_one_of(before(), T::number, T::symbol, T::constant, T::close);
  return (operand || mark) && (is_one_of(now(1), T::end, T::close) || is_between(now(1)));
}

/// Whether a bracket holds one number with commas between thousands that may be a pair: (1,234), but not (1,000)(0.05).
bool Parser::may_be_pair() const noexcept {
  const std::size_t number = is(now(1), T::op, '-') ? 2 : 1;
  const std::size_t close = number + (is_one_of(now(number + 1), T::symbol, T::constant) ? 2 : 1);  // (3,331\pi)
  const Token &last = before(), &behind = now(close + 1);
  if (!now(number).thousands || now(close).type != T::close) return false;
  if (is(T::open, '{')) return at_ == 0 && behind.type == T::end;
  const bool capital = last.type == T::symbol && last.text[0] <= 'Z';
  const bool begins = is_one_of(last, T::end, T::open, T::begin, T::cell, T::newline) || is_between(last) || capital;
  return begins && (is_one_of(behind, T::end, T::close, T::cell, T::newline, T::finish, T::bar) || is_between(behind));
}

Node Parser::bracketed(char open) {
  if (may_be_pair()) fail(Fault::no_operation_between);  // another reading of its commas is
  ++at_;
  if (open == '{' && begins_builder()) open = 'S';
  if ((open == 'S' || open == '{') && take(T::close, closing_of(open)))
    return open == 'S' ? Node::constant('0') : Node(Kind::words);
  const Context outer = std::exchange(inner_, {.in_set = open == 'S'});
  Node content = inside(open);
  inner_ = outer;
  return content;
}

Node Parser::inside(char open) {
  const char opening = before().code;
  Node content = list();
  if (open == 'S' && ends_element()) {
    ++at_;
    inner_.in_set = false;
    Node builder{Kind::set_builder, std::move(content), list()};
    expect(T::close, closing_of(opening));
    return builder;
  }
  if (open == 'S' && content.is(Kind::matrix) && !is(T::close, 'S')) {  // \left\{ … \right.
    content.text = kCases;
    return content;
  }
  const bool outward = closes_outward();
  if (now().type != T::close && !outward) fail(Fault::open_bracket);
  if (open == ']') open = '(';
  const char close = outward ? ')' : now().code;
  ++at_;
  const bool half_open = (open == '(' && close == ']') || (open == '[' && close == ')');
  const bool several = content.is(Kind::list);
  if (half_open ? !several || content.parts.size() != 2 : close != closing_of(open)) fail(Fault::open_bracket);
  if (open == 'F') return Node{Kind::floor, std::move(content)};
  if (open == 'C') return Node{Kind::ceiling, std::move(content)};
  if (open == 'S' && !several) return Node{Kind::set, std::move(content)};
  if (open == '{' || !several) return content;  // LaTeX's own braces show nothing
  content.kind = open == 'S' ? Kind::set : Kind::tuple;
  content.open = open;
  content.close = close;
  return content;
}

// ---- lists

/// A whole text, or what a bracket, an element of a set or an entry of a matrix holds.
Node Parser::list() {
  Node all = expression(0);
  if (!ends_list() && !ends_element()) fail(Fault::no_operation_between);
  return all;
}

/// The bar or colon between the element of a set and its condition.
bool Parser::ends_element() const noexcept { return inner_.in_set && (now().type == T::bar || is_op(':')); }

bool Parser::ends_list() const noexcept {
  return is_one_of(now(), T::end, T::close, T::cell, T::newline, T::finish) || closes_outward();
}

/// Items with separators between them, or equations without. Semicolons separate lists of what commas separate.
Node Parser::separated(const Operator& op, Node first) {
  std::vector<Node> items;
  items.push_back(std::move(first));
  const auto separates = [&] { return now().type == T::separator && op.has(now().code); };
  while (separates() || equation_follows()) {
    bool alternative = false;
    for (; separates(); ++at_) alternative = alternative || now().code == '|';  // "19, 46, and 82"
    inner_.separated = true;
    if (ends_list()) break;
    const bool hedged = now().type == T::word && words_.is(WordClass::hedge, now().text) && begins_value(1);
    if (alternative && items.size() == 1 && hedged) {  // 1/6, or approximately 0.1667
      ++at_;
      items[0] = Node{Kind::relation, std::move(items[0]), expression(11).behind('a')};
    } else {
      items.push_back(expression(op.right).behind(alternative ? '|' : '\0'));
    }
  }
  // The modulus of n ≡ 1, 3 (mod 8) is of both, which is not read.
  if (modulus_of(items.back()) != nullptr && modulus_of(items[0]) == nullptr) fail(Fault::operand_missing);
  return items.size() == 1 ? std::move(items[0]) : Node{Kind::list, std::move(items)};
}

bool Parser::modulus_follows() const noexcept {
  const std::size_t ahead = is(T::open, '{') ? 2 : 1;
  const bool bracket = is(now(ahead - 1), T::open, '(');
  return is_op('p') || (bracket && (is(now(ahead), T::op, 'p') || is(now(ahead), T::op, 'm')));
}

/// Whether "y =", behind a line break or \quad, begins another equation: x = 2 \quad y = 3.
bool Parser::equation_follows() const noexcept {
  constexpr std::size_t kMaxName = 8;  // a_{10}, f(2)
  if (!now().newline || now().type != T::symbol) return false;
  std::size_t depth = 0;
  for (std::size_t k = 1; k < kMaxName; ++k) {
    if (depth == 0 && is(now(k), T::relation, '=')) return true;
    if (now(k).type == T::open) ++depth;
    else if (now(k).type == T::close && depth > 0) --depth;
    else if (depth == 0 && !is(now(k), T::op, '_') && !is(now(k - 1), T::op, '_')) return false;
  }
  return false;
}

bool Parser::begins_value(std::size_t ahead) const noexcept {
  while (is(now(ahead), T::op, '-') || now(ahead).type == T::open) ++ahead;
  return is_one_of(now(ahead), T::number, T::fraction, T::root) || is(now(ahead), T::constant, 'p');
}

/// Whether an operand follows without an operation sign.
bool Parser::begins_operand() const noexcept {
  const Token& token = now();
  switch (token.type) {
    case T::symbol:
      return !equation_follows();
    case T::constant:
    case T::function:
    case T::root:
    case T::begin:
    case T::fraction:
      return true;
    case T::number:
      return before().type != T::number;  // 2 3 is no product
    case T::open:
      return token.code != 'S' && !closes_outward();
    case T::bar:
      return token.code == 0 && inner_.bars == 0 && !inner_.in_set;
    default:
      return false;
  }
}

}  // namespace qrl::reward::math

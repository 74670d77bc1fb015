// Operands in brackets: tuples, intervals and sets.
#include <utility>

#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool is_set_operator(const Token& token) noexcept {
  return token.type == T::op && (token.code == 'U' || token.code == 'N' || token.code == 'D');
}

/// Whether a token between items stands there.
bool is_between(const Token& token) noexcept {
  return token.type == T::relation || token.type == T::separator || token.type == T::word || is_set_operator(token);
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
  if (!is(T::open, '[') || !inner_.separated || at_ == 0) return false;
  const Token &before = tokens_[at_ - 1], &next = now(1);
  const bool mark = before.type == T::op && (before.code == '!' || before.code == '%' || before.code == 'd');
  const bool operand =
      before.type == T::number || before.type == T::symbol || before.type == T::constant || before.type == T::close;
  return (operand || mark) && (next.type == T::end || next.type == T::close || is_between(next));
}

/// Inside brackets with no other separator a comma separates: (1,234) is the pair 1, 234, but (1,000)(0.05) a product.
void Parser::split_thousands(std::size_t open) {
  const char code = tokens_[open].code;
  const Token before = open > 0 ? tokens_[open - 1] : Token{};
  const bool capital = before.type == T::symbol && before.text.size() == 1 && before.text[0] <= 'Z';
  const bool begins = open == 0 || before.type == T::open || before.type == T::begin || before.type == T::cell ||
                      before.type == T::newline || is_between(before) || capital;
  if (!begins || (code == '{' && open > 0)) return;
  std::vector<std::size_t> numbers;
  std::size_t close = open + 1, depth = 0;
  for (; close < tokens_.size(); ++close) {
    const Token& token = tokens_[close];
    if (token.type == T::open) ++depth;
    if (token.type == T::close && depth-- == 0) break;
    if (depth == 0 && token.type == T::separator) return;
    if (depth == 0 && token.groups > 0) numbers.push_back(close);
  }
  const Token behind = tokens_[std::min(close + 1, tokens_.size() - 1)];
  const bool ends = behind.type == T::end || behind.type == T::close || behind.type == T::cell ||
                    behind.type == T::newline || behind.type == T::finish || behind.type == T::bar ||
                    is_between(behind);
  if (!ends || (code == '{' && behind.type != T::end)) return;
  for (std::size_t n = numbers.size(); n-- > 0;) {
    const Token number = tokens_[numbers[n]];
    const std::size_t size = std::min(number.text.find_first_not_of("0123456789"), number.text.size());
    std::vector<Token> parts{number};
    parts[0].text = number.text.substr(0, number.groups);
    for (std::size_t k = number.groups; k < size; k += 3) {
      parts.push_back({T::separator, ',', false, false, 0, {}});
      parts.push_back(
          {T::number, 0, false, false, 0, number.text.substr(k, k + 3 < size ? 3 : std::string_view::npos)});
    }
    tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(numbers[n]));
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(numbers[n]), parts.begin(), parts.end());
  }
}

NodeIdx Parser::bracketed(char open) {
  split_thousands(at_);
  ++at_;
  if (open == '{' && begins_builder()) open = 'S';
  if ((open == 'S' || open == '{') && take(T::close, closing_of(open)))
    return open == 'S' ? tree_.constant('0', "empty") : make(Kind::words, {});
  const Context outer = std::exchange(inner_, {.in_set = open == 'S'});
  const NodeIdx idx = inside(open);
  inner_ = outer;
  return ok_ ? idx : -1;
}

NodeIdx Parser::inside(char open) {
  const char opening = tokens_[at_ - 1].code;
  NodeIdx idx = list(T::close);
  if (ok_ && open == 'S' && (now().type == T::bar || is_op(':'))) {
    ++at_;
    inner_.in_set = false;
    idx = make(Kind::set_builder, {{idx, 0}, {list(T::close), 0}});
    return take(T::close, closing_of(opening)) ? idx : fail(Fault::open_bracket);
  }
  if (open == 'S' && is_kind(idx, Kind::matrix) && !is(T::close, 'S')) {  // \left\{ … \right.
    made(idx).text = "cases";
    return idx;
  }
  const bool outward = closes_outward();
  if (!ok_ || (now().type != T::close && !outward)) return fail(Fault::open_bracket);
  if (open == ']') open = '(';
  const char close = outward ? ')' : now().code;
  ++at_;
  const bool half_open = (open == '(' && close == ']') || (open == '[' && close == ')');
  if (close != closing_of(open) && !half_open) return fail(Fault::open_bracket);
  const Node node = tree_.at(idx);
  const bool several = node.kind == Kind::list;
  if (open == 'F') return make(Kind::floor, {{idx, 0}});
  if (open == 'C') return make(Kind::ceiling, {{idx, 0}});
  if (open == '{') return idx;  // LaTeX's own braces show nothing
  if (open == 'S') return make(Kind::set, several ? tree_.links_of(idx) : std::vector<Link>{{idx, 0}});
  if (half_open && (!several || node.count != 2)) return fail(Fault::open_bracket);
  if (!several) return idx;
  const NodeIdx tuple = make(Kind::tuple, tree_.links_of(idx));
  if (!ok_) return -1;
  made(tuple).open = open;
  made(tuple).close = close;
  return tuple;
}

}  // namespace qrl::reward::math

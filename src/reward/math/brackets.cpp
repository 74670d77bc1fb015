// Lists, and operands in brackets: tuples, intervals and sets.
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
    made(idx).text = kCases;
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

// ---- lists

bool Parser::ends_list(T closing) const noexcept {
  const T type = now().type;
  return type == T::end || type == closing || type == T::close || type == T::cell || type == T::newline ||
         type == T::finish || closes_outward();
}

/// Items with separators between them; one item is itself. Semicolons separate lists of what commas separate.
NodeIdx Parser::list(T closing) {
  std::vector<Link> groups, items;
  bool several = false;
  const auto ends_element = [this] { return inner_.in_set && (now().type == T::bar || is_op(':')); };
  while (ok_) {
    bool separated = items.empty(), alternative = false;
    for (; now().type == T::separator && now().code != ';'; ++at_) {  // "19, 46, and 82"
      inner_.separated = inner_.separated || !items.empty();
      separated = true;
      alternative = alternative || now().code == '|';
    }
    const bool outward = closing == T::end && is(T::close, ']');  // ]2, 5[
    if ((!outward && ends_list(closing)) || (inner_.in_set && !separated && ends_element())) break;
    if (alternative && items.size() == 1 && now().type == T::word && words_.is(WordClass::hedge, now().text) &&
        begins_value(1)) {
      ++at_;  // 1/6, or approximately 0.1667
      items[0].node = make(Kind::relation, {items[0], {expression(11), 'a'}});
      continue;
    }
    if (take(T::separator, ';')) {
      several = inner_.separated = true;
      if (!items.empty()) groups.push_back({group(std::move(items)), 0});
      items.clear();
      continue;
    }
    items.push_back({expression(0), alternative ? '|' : '\0'});
    if (now().type != T::separator && !ends_list(closing) && !ends_element() && !equation_follows())
      return fail(Fault::no_operation_between);
  }
  if (!ok_) return -1;
  if (!items.empty()) groups.push_back({group(std::move(items)), 0});
  if (groups.empty()) return fail(Fault::operand_missing);
  if (!several || groups.size() == 1) return groups.front().node;
  const NodeIdx idx = make(Kind::list, groups);
  if (ok_) made(idx).flag = true;
  return idx;
}

/// The modulus of n ≡ 1, 3 (mod 8) is of both, which is not read.
NodeIdx Parser::group(std::vector<Link> items) {
  const auto modular = [this](Link item) { return item.node >= 0 && modulus_of(ref(item.node)); };
  if (modular(items.back()) && !modular(items.front())) return fail(Fault::operand_missing);
  return items.size() == 1 || items.back().node < 0 ? items.front().node : make(Kind::list, items);
}

bool Parser::modulus_follows() const noexcept {
  const auto is_mod = [](const Token& t) { return t.type == T::op && (t.code == 'p' || t.code == 'm'); };
  const std::size_t braced = is(T::open, '{') ? 1 : 0;
  return is_op('p') || (is(now(braced), T::open, '(') && is_mod(now(braced + 1)));
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
  const Token& token = now(ahead);
  return token.type == T::number || token.type == T::fraction || token.type == T::root || is(token, T::constant, 'p');
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
      return at_ == 0 || tokens_[at_ - 1].type != T::number;  // 2 3 is no product
    case T::open:
      return token.code != 'S' && !closes_outward();
    case T::bar:
      return token.code == 0 && inner_.bars == 0 && !inner_.in_set;
    default:
      return false;
  }
}

}  // namespace qrl::reward::math

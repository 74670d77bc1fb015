// The tightest level of the grammar: numbers, names, functions, brackets, environments.
#include <string>

#include "reward/math/parser.h"
#include "reward/math/texts.h"

namespace qrl::reward::math {

using T = TokenType;

NodeIdx Parser::read_primary() {
  if (!ok_) return -1;
  const Token token = now();
  switch (token.type) {
    case T::number:
      return read_number();
    case T::symbol:
      ++at_;
      return read_symbol(token);
    case T::constant:
      ++at_;
      return make(Kind::constant, {}, token.text);
    case T::word:
      return read_words();
    case T::function:
      ++at_;
      return read_function(token.text);
    case T::fraction: {
      ++at_;
      const NodeIdx above = read_argument();
      const NodeIdx below = read_argument();
      return token.code == 'b' ? make(Kind::binomial, {{above, 0}, {below, 0}})
                               : make(Kind::product, {{above, 0}, {below, '/'}});
    }
    case T::root:
      ++at_;
      return read_root();
    case T::open:
      return read_bracketed(token.code);
    case T::bar:
      return read_absolute();
    case T::begin:
      return read_environment(token.text);
    case T::dots:
      return read_dots();
    case T::relation:  // \kappa^{<\kappa}
      if (at_ > 0 && tokens_[at_ - 1].type == T::open && tokens_[at_ - 1].code == '{') {
        const char code = now().code;  // \mathbb{R}_{>0}
        const std::string_view name = code == '>' ? "above" : code == 'g' ? "from" : code == '<' ? "below" : "relation";
        ++at_;
        return make(Kind::subscript, {{read_sum(), 0}, {make(Kind::words, {}, name), 0}});
      }
      return fail("an operand is missing");
    default:
      return fail("an operand is missing");
  }
}

NodeIdx Parser::read_words() {
  for (const std::string_view hedge : {"approximately", "approx", "about", "around", "roughly"}) {
    if (now().text != hedge || now(1).type == T::word || now(1).type == T::end) continue;
    ++at_;
    return read_primary();
  }
  const std::size_t first = at_;
  while (now().type == T::word) ++at_;
  if (now().type == T::symbol && now(1).type == T::relation &&
      (span_of(first) == "all" || names_reals(text_key(span_of(first)))))
    return read_primary();  // all x < 2
  const std::string_view words = span_of(first);
  if (now().type == T::symbol && now(1).type == T::end && names_reals(text_key(words))) ++at_;  // all real x
  return make(Kind::words, {}, words);
}

NodeIdx Parser::read_argument() {
  const Nested nested(*this);
  if (!ok_) return -1;
  const T behind = now(1).type;
  const bool lone = behind == T::end || behind == T::close || behind == T::separator || behind == T::relation;
  if (is_op('+') && lone) {  // \mathbb{R}_+
    ++at_;
    return make(Kind::words, {}, "plus");
  }
  if (is_op('-') || is_op('+')) return read_signed();
  if (is(T::open, '{') && behind == T::op && now(1).code == '+' && now(2).type == T::close) {
    at_ += 3;
    return make(Kind::words, {}, "plus");
  }
  if (is(T::open, '{')) return read_bracketed('{');
  if (now().type == T::op) {  // x_*
    ++at_;
    return make(Kind::words, {}, "op");
  }
  return now().type == T::number ? plain_number() : read_primary();
}

NodeIdx Parser::plain_number() {
  ++at_;
  return make(Kind::number, {}, tokens_[at_ - 1].text);
}

bool Parser::is_digits(const Token& token) noexcept {
  return token.type == T::number &&
         std::all_of(token.text.begin(), token.text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool Parser::below(std::string_view a, std::string_view b) noexcept {
  a.remove_prefix(std::min(a.find_first_not_of('0'), a.size()));
  b.remove_prefix(std::min(b.find_first_not_of('0'), b.size()));
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

NodeIdx Parser::read_number() {
  const Token whole = now();
  const NodeIdx number = plain_number();
  if (now().type == T::number && now(1).type == T::op && now(1).code == '/' && now(2).type == T::number) {
    if (now().newline || !now().space || now(2).space != now(1).space) return fail("two numbers in a row");
    if (!is_digits(whole) || !is_digits(now()) || !is_digits(now(2))) return fail("a mixed number of no integers");
    if (!below(now().text, now(2).text)) return fail("a mixed number whose fraction is not proper");
    const NodeIdx above = plain_number();
    ++at_;
    const NodeIdx under = plain_number();
    return make(Kind::mixed, {{number, 0}, {make(Kind::product, {{above, 0}, {under, '/'}}), 0}});
  }
  if (now().type != T::fraction || now().code != '/' || !is_digits(whole)) return number;
  const std::size_t begin = at_++;
  const Token above = argument_digits();
  const Token under = argument_digits();
  if (above.type == T::number && under.type == T::number && below(above.text, under.text)) {
    const NodeIdx a = make(Kind::number, {}, above.text);
    const NodeIdx b = make(Kind::number, {}, under.text);
    return make(Kind::mixed, {{number, 0}, {make(Kind::product, {{a, 0}, {b, '/'}}), 0}});
  }
  at_ = begin;
  return number;
}

Token Parser::argument_digits() noexcept {
  const bool braced = take(T::open, '{');
  const Token token = now();
  if (!is_digits(token)) return {};
  ++at_;
  if (braced && !take(T::close, '}')) return {};
  return token;
}

bool Parser::applies_to_symbol() const noexcept {
  const T inside = now(1).type;
  return (inside == T::symbol || inside == T::number || inside == T::constant) && now(2).type == T::close &&
         now(2).code == ')';
}

bool Parser::names_function(std::string_view name) noexcept {
  constexpr std::string_view kLetters = "fghFGHO";
  if (name.size() == 1) return kLetters.find(name[0]) != std::string_view::npos;
  return name == "Gamma" || name == "zeta" || name == "phi" || name == "varphi" || name == "Re" || name == "Im";
}

NodeIdx Parser::read_symbol(const Token& token) {
  const NodeIdx symbol = make(Kind::symbol, {}, token.text);
  if (!ok_ || !is(T::open, '(')) return symbol;
  constexpr std::string_view kSometimes = "pquvwy";
  const bool letter = token.text.size() == 1;
  const bool capital = letter && token.text[0] >= 'A' && token.text[0] <= 'Z';
  const bool sometimes = capital || (letter && kSometimes.find(token.text[0]) != std::string_view::npos);
  const bool event = token.text == "P" && now(1).type == T::symbol && now(2).type == T::relation;  // P(X = 2)
  const bool called = names_function(token.text) || event || (sometimes && applies_to_symbol());
  return called ? read_call_of(symbol) : symbol;
}

NodeIdx Parser::read_call_of(NodeIdx function) {
  const NodeIdx arguments = read_bracketed('(');
  return make(Kind::call, {{function, 0}, {arguments, 0}});
}

NodeIdx Parser::read_root() {
  NodeIdx degree = -1;
  if (is(T::open, '[')) {
    ++at_;
    degree = read_list(T::close, false);
    if (!take(T::close, ']')) return fail("a bracket is not closed");
  }
  const NodeIdx radicand = is(T::open, '(') ? read_bracketed('(') : read_argument();
  return degree < 0 ? make(Kind::root, {{radicand, 0}}) : make(Kind::root, {{radicand, 0}, {degree, 0}});
}

NodeIdx Parser::read_function(std::string_view name) {
  const Nested nested(*this);
  std::vector<Link> links;
  NodeIdx index = -1;
  NodeIdx exponent = -1;
  while (ok_ && (is_op('_') || is_op('^'))) {
    const bool lower = now().code == '_';
    ++at_;
    (lower ? index : exponent) = read_argument();
  }
  while (now().type == T::op && now().code == '\'') ++at_;
  if (now().type == T::close || now().type == T::end || now().type == T::relation) {  // m_{\max}
    return index < 0 && exponent < 0 ? make(Kind::symbol, {}, name) : fail("a function without its argument");
  }
  const bool big = name == "sum" || name == "prod" || name == "lim" || name.ends_with("int") || name == "limsup" ||
                   name == "liminf" || name == "coprod";
  if (big) {
    links.push_back({read_product(), 0});
  } else if (now().type == T::open &&
             (now().code == '(' || now().code == '{' || now().code == '[' || now().code == 'S')) {
    links.push_back({read_bracketed(now().code), 0});
    while (ok_ && (name == "overset" || name == "underset" || name == "stackrel") && is(T::open, '{')) {
      links.push_back({read_bracketed('{'), 0});
    }
  } else {
    links.push_back({read_plain_argument(), 0});
  }
  if (index >= 0) links.push_back({index, '_'});
  if (exponent >= 0) links.push_back({exponent, '^'});
  return make(Kind::call, links, name);
}

NodeIdx Parser::read_plain_argument() {
  if (is_op('-')) return read_signed();
  std::vector<Link> links;
  while (ok_ && (links.empty() || (starts_operand() && now().type != T::function && now().type != T::open))) {
    links.push_back({read_power(), links.empty() ? char{0} : '*'});
    if (ok_ && is_op('/') && now(1).type == T::number && links.size() == 1 &&
        (is_kind(links[0].node, Kind::number) || is_kind(links[0].node, Kind::symbol) ||
         is_kind(links[0].node, Kind::constant))) {  // sin pi/6
      ++at_;
      links.push_back({read_power(), '/'});
      break;
    }
  }
  return links.size() == 1 ? links.front().node : make(Kind::product, links);
}

NodeIdx Parser::read_absolute() {
  ++at_;
  ++num_bars_;
  const bool outer_set = in_set_;
  in_set_ = false;
  while (now().type == T::bar) ++at_;  // ‖x‖ written ||x||
  const NodeIdx inside = read_sum();
  in_set_ = outer_set;
  --num_bars_;
  if (!ok_ || !take(T::bar)) return fail("a bar is not closed");
  return make(Kind::absolute, {{inside, 0}});
}

NodeIdx Parser::read_bracketed(char open) {
  const Nested nested(*this);
  ++at_;
  if (!ok_) return -1;
  const int outer_bars = num_bars_;
  const bool outer_set = in_set_;
  num_bars_ = 0;
  in_set_ = open == 'S';
  NodeIdx idx = -1;
  if (now().type == T::close && now().code == closing_of(open) && (open == 'S' || open == '{')) {
    idx = open == 'S' ? make(Kind::constant, {}, "empty") : make(Kind::words, {}, "");
    ++at_;
  } else {
    idx = read_inside(open);
  }
  num_bars_ = outer_bars;
  in_set_ = outer_set;
  return ok_ ? idx : -1;
}

NodeIdx Parser::read_inside(char open) {
  NodeIdx idx = read_list(T::close, true);
  if (ok_ && open == 'S' && (take(T::bar) || take(T::op, ':'))) {
    in_set_ = false;
    idx = make(Kind::set_builder, {{idx, 0}, {read_list(T::close, true), 0}});
    if (!take(T::close, 'S')) return fail("a bracket is not closed");
    return idx;
  }
  if (!ok_ || now().type != T::close) return fail("a bracket is not closed");
  const char close = now().code;
  ++at_;
  const bool half_open = (open == '(' && close == ']') || (open == '[' && close == ')');
  if (close != closing_of(open) && !half_open) return fail("brackets do not match");
  const Node& node = tree_.at(idx);
  const bool several = node.kind == Kind::list;
  if (open == 'F') return make(Kind::floor, {{idx, 0}});
  if (open == 'C') return make(Kind::ceiling, {{idx, 0}});
  if (open == '{') return idx;  // LaTeX's own braces show nothing
  if (open == 'S') return make(Kind::set, several ? links_of(idx) : std::vector<Link>{{idx, 0}});
  if (half_open && (!several || node.count != 2)) return fail("brackets do not match");
  if (!several) {
    if (node.kind == Kind::number && open == '(') {
      const NodeIdx copy = make(Kind::number, {}, node.text);
      if (ok_) made(copy).flag = true;
      return copy;
    }
    return idx;
  }
  const NodeIdx tuple = make(Kind::tuple, links_of(idx));
  if (!ok_) return -1;
  made(tuple).open = open;
  made(tuple).close = close;
  return tuple;
}

std::vector<Link> Parser::links_of(NodeIdx idx) const {
  const Node& node = tree_.at(idx);
  const auto begin = tree_.links.begin() + node.first;
  return {begin, begin + node.count};
}

NodeIdx Parser::read_environment(std::string_view name) {
  const Nested nested(*this);
  ++at_;
  std::vector<Link> entries;
  std::int32_t columns = 0, in_row = 0;
  const int outer_bars = num_bars_;
  num_bars_ = 0;
  while (ok_) {
    if (now().type == T::cell || now().type == T::newline || now().type == T::finish) {
      const T type = now().type;
      const bool trailing = type == T::finish && in_row == 0 && !entries.empty();
      if (!trailing && entry_missing_) entries.push_back({make(Kind::words, {}, ""), 0});
      if (!trailing) ++in_row;
      entry_missing_ = true;
      ++at_;
      if (type == T::cell) continue;
      if (!trailing) {
        if (columns == 0) columns = in_row;
        if (in_row != columns) return fail("rows of different lengths");
      }
      in_row = 0;
      if (type == T::finish) break;
    } else if (now().type == T::end) {
      return fail("an environment is not closed");
    } else {
      entries.push_back({read_entry(), 0});
      entry_missing_ = false;
    }
  }
  num_bars_ = outer_bars;
  const bool cases = name.starts_with("cases");
  if (cases && entries.size() == 1) return entries.front().node;
  const NodeIdx matrix = make(Kind::matrix, entries, cases ? "cases" : name);
  if (!ok_) return -1;
  made(matrix).columns = columns;
  return name == "vmatrix" ? make(Kind::determinant, {{matrix, 0}}) : matrix;
}

NodeIdx Parser::read_entry() {
  for (const std::string_view word : {"if", "for", "when", "where", "If", "For"}) {  // x & \text{if } x > 0
    const bool more = now(1).type != T::cell && now(1).type != T::newline && now(1).type != T::finish;
    if (now().type == T::word && now().text == word && more) ++at_;
  }
  const NodeIdx entry = read_list(T::cell, false);
  if (ok_ && now().type != T::cell && now().type != T::newline && now().type != T::finish) {
    return fail("an entry with something left over");
  }
  return entry;
}

}  // namespace qrl::reward::math

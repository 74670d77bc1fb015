#include <utility>

#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool is_relation(const Token& token) noexcept { return token.type == T::relation && token.code != 't'; }
bool is_operation(const Token& token) noexcept { return token.type == T::op && has("+-*/PM", token.code); }
bool is_between(const Token& token) noexcept {
  return token.type == T::relation || token.type == T::separator || token.type == T::word ||
         (token.type == T::op && has("UND", token.code));
}

char closing_of(char open) noexcept { return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : open; }

}  // namespace

/// Returns whether "[" closes an interval, as in ]2, 5[. It does if no operand follows.
bool Parser::closes_outward() const noexcept {
  return is(T::open, '[') && (is_one_of(now(1), T::end, T::close) || is_between(now(1)));
}

/// Returns whether a bracket may hold a pair instead of a number with thousands commas: (1,234), but not (1,000)(0.05).
bool Parser::may_be_pair() const noexcept {
  const std::size_t number = is(now(1), T::op, '-') ? 2 : 1;
  const std::size_t close = number + (is_one_of(now(number + 1), T::symbol, T::constant) ? 2 : 1);  // as in (3,331\pi)
  const Token &last = before(), &behind = now(close + 1);
  if (!now(number).thousands || now(close).type != T::close) return false;
  if (is(T::open, '{')) return at_ == 0 && behind.type == T::end;
  const bool capital = last.type == T::symbol && last.text[0] <= 'Z';
  const bool begins = is_one_of(last, T::end, T::open, T::begin, T::cell, T::newline) || is_between(last) || capital;
  return begins && (is_one_of(behind, T::end, T::close, T::cell, T::newline, T::finish, T::bar) || is_between(behind));
}

Node Parser::bracketed(char open) {
  if (may_be_pair()) fail(Fault::kNoOperationBetween);  // the text may still parse with another Comma
  ++at_;
  const char closing = closing_of(open);
  // Reads {x | …} and {x ∈ S : …} as sets, although LaTeX does not print plain braces.
  const Token& bar = now(is(now(1), T::relation, 'e') ? 3 : 1);
  if (open == '{' && now().type == T::symbol && (bar.type == T::bar || is(bar, T::op, ':'))) open = 'S';
  if (has("S{", open) && take(T::close, closing))
    return open == 'S' ? Node(Kind::constant, {}, '0') : Node(Kind::words);
  const char outer = std::exchange(inner_, open == 'S' ? 'S' : '\0');
  Node content = list();
  const bool builder = ends_element();
  if (builder) {
    ++at_;
    inner_ = 0;
    content = Node{Kind::set_builder, std::move(content), list()};
  }
  inner_ = outer;
  if (open == 'S' && content.is(Kind::matrix) && !is(T::close, 'S')) {  // a system: \left\{ … \right.
    content.text = kCases;
    return content;
  }
  const bool several = content.is(Kind::list), outward = closes_outward();
  const char close = outward ? ')' : now().code;
  if (open == ']') open = '(';
  const bool interval = several && has("([", open) && has(")]", close);
  if ((now().type != T::close && !outward) || (!interval && (outward || close != closing))) fail(Fault::kOpenBracket);
  ++at_;
  if (open == 'F') return Node{Kind::floor, std::move(content)};
  if (open == 'C') return Node{Kind::ceiling, std::move(content)};
  if (open == 'S' && !several && !builder) return Node{Kind::set, std::move(content)};
  if (open == '{' || !several) return content;  // plain braces only group
  content.kind = open == 'S' ? Kind::set : Kind::tuple;
  content.open = open;
  content.close = close;
  return content;
}

// ---- lists

Node Parser::list() {
  Node all = expression(0);
  if (!ends_list() && !ends_element()) fail(Fault::kNoOperationBetween);
  return all;
}

/// Parses items between separators, or equations on separate lines. Semicolons separate lists of comma-separated items.
Node Parser::separated(const Operator& op, Node first) {
  std::vector<Node> items;
  items.push_back(std::move(first));
  const auto separates = [&] { return now().type == T::separator && op.has(now().code); };
  while (separates() || equation_follows()) {
    bool alternative = false;
    for (; separates(); ++at_) alternative = alternative || now().code == '|';  // skips both separators of "46, and 82"
    if (ends_list()) break;
    if (alternative && words_.is(WordClass::hedge, now().text) && begins_value(1)) {  // 1/6, or approximately 0.1667
      ++at_;
      items.back() = Node{Kind::relation, std::move(items.back()), expression(11).behind('a')};
    } else {
      items.push_back(expression(op.right).behind(alternative ? '|' : '\0'));
    }
  }
  // Rejects n ≡ 1, 3 (mod 8), where the modulus would apply to both items.
  if (modulus_of(items.back()) != nullptr && modulus_of(items[0]) == nullptr) fail(Fault::kOperandMissing);
  return items.size() == 1 ? std::move(items[0]) : Node{Kind::list, std::move(items)};
}

bool Parser::equation_follows() const noexcept {
  constexpr std::size_t kMaxName = 8;
  if (!now().newline || now().type != T::symbol) return false;
  std::size_t end = 1;
  while (end < kMaxName && (is_one_of(now(end), T::open, T::close, T::symbol, T::number) || is(now(end), T::op, '_')))
    ++end;
  return is(now(end), T::relation, '=');
}

bool Parser::begins_operand() const noexcept {
  const Token& token = now();
  if (token.type == T::number) return before().type != T::number;  // 2 3 is no product
  if (token.type == T::open) return token.code != 'S' && !closes_outward();
  if (token.type == T::bar) return token.code == 0 && inner_ == 0;
  return is_one_of(token, T::symbol, T::constant, T::function, T::root, T::begin, T::fraction);
}

// ---- environments

/// Removes every & that only aligns, and merges continued rows. `begin`: index of the token after the environment's
/// name.
void Parser::lay_out_rows(std::size_t begin) {
  const std::string_view name = tokens_[begin - 1].text;
  if (name.ends_with("matrix")) return;
  const auto is_beside = [&](std::size_t k, auto predicate) {
    return predicate(tokens_[k - 1]) || predicate(tokens_[k + 1]);
  };
  bool aligned = false;
  for (std::size_t k = begin; tokens_[k].type != T::end; ++k)
    aligned = aligned || (tokens_[k].type == T::cell && is_beside(k, is_relation));
  if (!aligned && (name == "array" || name == "tabular")) return;  // rows of a matrix
  tokens_[begin - 1].text = kCases;
  const bool indented = tokens_[begin].type == T::cell;
  // Indices of the current token, of the end of the kept tokens, and of the start of the current row.
  std::size_t end = begin, kept = begin, row = begin;
  for (int depth = 0; tokens_[end].type != T::end && (depth > 0 || tokens_[end].type != T::finish); ++end) {
    const Token token = tokens_[end];
    depth += token.type == T::begin ? 1 : token.type == T::finish ? -1 : 0;
    if (depth == 0 && token.type == T::cell) {
      const bool aligns = aligned && (is_beside(end, is_relation) || is_beside(end, is_operation));
      if (kept == row || aligns || is_one_of(tokens_[end + 1], T::cell, T::newline, T::finish)) continue;
    } else if (depth == 0 && token.type == T::newline) {
      const bool cell = tokens_[end + 1].type == T::cell;
      const Token& next = tokens_[end + (cell ? 2 : 1)];
      if (is_relation(next) || (cell && !indented && is_operation(next))) continue;
    }
    tokens_[kept++] = token;
    if (depth == 0 && token.type == T::newline) row = kept;
  }
  tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(kept),
                tokens_.begin() + static_cast<std::ptrdiff_t>(end));
}

Node Parser::environment() {
  lay_out_rows(at_ + 1);
  const std::string_view name = next().text;
  std::vector<Node> entries;
  std::size_t columns = 0, in_row = 0;
  const char outer = std::exchange(inner_, '\0');
  for (T end = T::newline; end != T::finish;) {
    if (now().type == T::word && words_.is(WordClass::condition, now().text) &&
        !is_one_of(now(1), T::cell, T::newline, T::finish))
      ++at_;  // skips the word before a condition: x & \text{if} x > 0
    entries.push_back(list());
    ++in_row;
    end = next().type;
    if (end == T::cell) continue;
    if (columns == 0) columns = in_row;
    if ((end != T::newline && end != T::finish) || in_row != columns) fail(Fault::kUnlikeRows);
    in_row = 0;
  }
  inner_ = outer;
  const bool cases = name == kCases;
  if (cases && entries.size() == 1) return std::move(entries[0]);
  const auto is_equation = [](const Node& entry) { return entry.is(Kind::relation); };
  if (cases && entries.size() == columns && std::ranges::all_of(entries, is_equation)) columns = 1;  // in a single row
  Node matrix{Kind::matrix, std::move(entries)};
  matrix.text = name;
  matrix.columns = columns;
  return name == "vmatrix" ? Node{Kind::determinant, std::move(matrix)} : matrix;
}

}  // namespace qrl::reward::math

// Environments: matrices, systems and definitions by cases.
#include <string_view>
#include <utility>

#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

/// A sign between two sides; ⇒ begins a formula of its own.
bool is_relation(const Token& token) noexcept { return token.type == T::relation && token.code != 't'; }
bool is_operation(const Token& token) noexcept {
  return token.type == T::op && std::string_view("+-*/PM").find(token.code) != std::string_view::npos;
}

}  // namespace

/// Takes out the & that only align, and makes rows that continue the one above a part of it. `begin`: behind the name.
void Parser::lay_out_rows(std::size_t begin) {
  const std::string_view name = tokens_[begin - 1].text;
  if (name.ends_with("matrix")) return;
  std::vector<std::size_t> marks{begin - 1};  // the name, & and line ends of this environment, and its end
  std::size_t depth = 0;
  for (std::size_t k = begin; tokens_[marks.back()].type != T::finish; ++k) {
    const T type = tokens_[k].type;
    if (type == T::end) return;
    if (depth == 0 && (type == T::cell || type == T::newline || type == T::finish)) marks.push_back(k);
    if (type == T::open || type == T::begin) ++depth;
    if ((type == T::close || type == T::finish) && depth > 0) --depth;
  }
  const auto is_cell = [&](std::size_t m) { return tokens_[marks[m]].type == T::cell; };
  const auto is_beside = [&](std::size_t m, auto predicate) {
    return predicate(tokens_[marks[m] - 1]) || predicate(tokens_[marks[m] + 1]);
  };
  bool aligned = false, one_row = true;
  for (std::size_t m = 1; m + 1 < marks.size(); ++m) {
    aligned = aligned || (is_cell(m) && is_beside(m, is_relation));
    one_row = one_row && (is_cell(m) || marks[m + 1] == marks[m] + 1);
  }
  if (!aligned && (name == "array" || name == "tabular")) return;  // a matrix
  tokens_[begin - 1].text = kCases;
  std::size_t kept = begin;
  bool filled = false, relation = false, indented = tokens_[begin].type == T::cell;  // of the row so far
  for (std::size_t m = 1; m < marks.size(); ++m) {
    for (std::size_t k = marks[m - 1] + 1; k < marks[m]; ++k) {
      filled = true;
      relation = relation || is_relation(tokens_[k]);
      tokens_[kept++] = tokens_[k];
    }
    Token mark = tokens_[marks[m]];
    if (is_cell(m)) {
      const bool empty = !filled || marks[m + 1] == marks[m] + 1;
      if (empty || (aligned && (is_beside(m, is_relation) || is_beside(m, is_operation)))) continue;
      if (one_row && relation && is_cell(m + 1) && is_beside(m + 1, is_relation)) mark.type = T::newline;
    } else if (mark.type == T::newline) {
      const bool cell = tokens_[marks[m] + 1].type == T::cell;
      const Token& first = tokens_[marks[m] + (cell ? 2 : 1)];
      const bool continues = is_relation(first) || (cell && !indented && is_operation(first));
      indented = cell;
      if (continues) continue;
      filled = relation = false;
    }
    tokens_[kept++] = mark;
  }
  tokens_.erase(tokens_.begin() + static_cast<std::ptrdiff_t>(kept),
                tokens_.begin() + static_cast<std::ptrdiff_t>(marks.back()) + 1);
}

Node Parser::environment() {
  lay_out_rows(at_ + 1);
  const std::string_view name = next().text;
  std::vector<Node> entries;
  std::size_t columns = 0;
  const Context outer = std::exchange(inner_, {});
  for (T end = T::newline; end == T::newline;) {
    const std::size_t before = entries.size();
    do {
      entries.push_back(entry());
      end = next().type;
    } while (end == T::cell);
    const std::size_t in_row = entries.size() - before;
    if (before == 0) columns = in_row;
    const Node& last = entries.back();
    if (end == T::finish && in_row == 1 && before > 0 && last.is(Kind::words) && last.text.empty()) entries.pop_back();
    else if (in_row != columns) fail(Fault::unlike_rows);
  }
  inner_ = outer;
  const bool cases = name.starts_with(kCases);
  if (cases && entries.size() == 1) return std::move(entries[0]);
  Node matrix{Kind::matrix, std::move(entries)};
  matrix.text = cases ? kCases : name;
  matrix.columns = columns;
  return name == "vmatrix" ? Node{Kind::determinant, std::move(matrix)} : matrix;
}

/// Up to the sign behind it; an empty one is a name without letters.
Node Parser::entry() {
  const auto ends = [this](std::size_t ahead) {
    const T type = now(ahead).type;
    return type == T::cell || type == T::newline || type == T::finish;
  };
  if (now().type == T::end) fail(Fault::open_bracket);
  if (ends(0)) return Node(Kind::words);
  if (now().type == T::word && words_.is(WordClass::condition, now().text) && !ends(1)) ++at_;  // x & \text{if } x > 0
  Node all = list();
  if (!ends(0)) fail(Fault::unlike_rows);
  return all;
}

}  // namespace qrl::reward::math

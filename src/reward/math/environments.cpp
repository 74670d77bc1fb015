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

NodeIdx Parser::environment(std::string_view name) {
  ++at_;
  lay_out_rows(at_);
  name = tokens_[at_ - 1].text;
  std::vector<Link> entries;
  std::int32_t columns = 0, in_row = 0;
  const Context outer = std::exchange(inner_, {});
  for (bool missing = true; ok_;) {
    const T type = now().type;
    if (type == T::end) return fail(Fault::open_bracket);
    if (type != T::cell && type != T::newline && type != T::finish) {
      entries.push_back({entry(), 0});
      missing = false;
      continue;
    }
    const bool trailing = type == T::finish && in_row == 0 && missing && !entries.empty();
    if (!trailing && missing) entries.push_back({make(Kind::words, {}), 0});
    in_row += trailing ? 0 : 1;
    missing = true;
    ++at_;
    if (type == T::cell) continue;
    if (columns == 0) columns = in_row;
    if (!trailing && in_row != columns) return fail(Fault::unlike_rows);
    in_row = 0;
    if (type == T::finish) break;
  }
  inner_ = outer;
  const bool cases = name.starts_with(kCases);
  if (ok_ && cases && entries.size() == 1) return entries.front().node;
  const NodeIdx matrix = make(Kind::matrix, entries, cases ? kCases : name);
  if (!ok_) return -1;
  made(matrix).columns = columns;
  return name == "vmatrix" ? make(Kind::determinant, {{matrix, 0}}) : matrix;
}

NodeIdx Parser::entry() {
  const T behind = now(1).type;
  const bool more = behind != T::cell && behind != T::newline && behind != T::finish;
  if (now().type == T::word && words_.is(WordClass::condition, now().text) && more) ++at_;  // x & \text{if } x > 0
  const NodeIdx idx = list(T::cell);
  const T type = now().type;
  return !ok_ || type == T::cell || type == T::newline || type == T::finish ? idx : fail(Fault::unlike_rows);
}

}  // namespace qrl::reward::math

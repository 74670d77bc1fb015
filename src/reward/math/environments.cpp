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

std::size_t depth_behind(const Token& token, std::size_t depth) noexcept {
  if (token.type == T::open || token.type == T::begin) return depth + 1;
  return depth - (depth > 0 && (token.type == T::close || token.type == T::finish) ? 1 : 0);
}

}  // namespace

/// Takes out the & that only align, and makes rows that continue the one above a part of it. `begin`: behind the name.
void Parser::lay_out_rows(std::size_t begin) {
  const std::string_view name = tokens_[begin - 1].text;
  if (name.ends_with("matrix")) return;
  const auto is_beside = [&](std::size_t k, auto predicate) {
    return predicate(tokens_[k - 1]) || predicate(tokens_[k + 1]);
  };
  std::size_t end = begin, depth = 0;  // of brackets and environments within
  bool aligned = false, one_row = true;
  for (; tokens_[end].type != T::finish || depth > 0; ++end) {
    if (tokens_[end].type == T::end) return;
    depth = depth_behind(tokens_[end], depth);
    const T type = depth == 0 ? tokens_[end].type : T::layout;
    aligned = aligned || (type == T::cell && is_beside(end, is_relation));
    one_row = one_row && (type != T::newline || tokens_[end + 1].type == T::finish);
  }
  if (!aligned && (name == "array" || name == "tabular")) return;  // a matrix
  tokens_[begin - 1].text = kCases;
  std::size_t kept = begin, row = begin;  // behind the tokens that stay, and where their last row begins
  bool indented = tokens_[begin].type == T::cell;
  for (std::size_t k = begin; k < end; ++k) {
    Token token = tokens_[k];
    depth = depth_behind(token, depth);
    if (depth == 0 && token.type == T::cell) {
      const bool aligns = aligned && (is_beside(k, is_relation) || is_beside(k, is_operation));
      if (kept == row || aligns || is_one_of(tokens_[k + 1], T::cell, T::newline, T::finish)) continue;
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(row);
      const bool relation = std::any_of(first, first + static_cast<std::ptrdiff_t>(kept - row), is_relation);
      if (one_row && aligned && relation) token.type = T::newline;
    } else if (depth == 0 && token.type == T::newline) {
      const bool cell = tokens_[k + 1].type == T::cell;
      const Token& next = tokens_[k + (cell ? 2 : 1)];
      const bool continues = is_relation(next) || (cell && !indented && is_operation(next));
      indented = cell;
      if (continues) continue;
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
  const auto ends = [this](std::size_t ahead) { return is_one_of(now(ahead), T::cell, T::newline, T::finish); };
  if (now().type == T::end) fail(Fault::open_bracket);
  if (ends(0)) return Node(Kind::words);
  if (now().type == T::word && words_.is(WordClass::condition, now().text) && !ends(1)) ++at_;  // x & \text{if } x > 0
  Node all = list();
  if (!ends(0)) fail(Fault::unlike_rows);
  return all;
}

}  // namespace qrl::reward::math

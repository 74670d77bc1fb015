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
bool is_layout(std::string_view name) noexcept { return !name.ends_with("matrix"); }

}  // namespace

/// Takes out the & that only align, and makes rows that continue the one above a part of it. `begin`: behind the name.
void Parser::lay_out_rows(std::size_t begin) {
  const bool array = tokens_[begin - 1].text == "array" || tokens_[begin - 1].text == "tabular";
  if (!array && !is_layout(tokens_[begin - 1].text)) return;
  std::vector<std::size_t> marks;  // & and line ends of this environment, and its end
  std::size_t depth = 0;
  for (std::size_t k = begin; k < tokens_.size() && (marks.empty() || tokens_[marks.back()].type != T::finish); ++k) {
    const T type = tokens_[k].type;
    if (depth == 0 && (type == T::cell || type == T::newline || type == T::finish)) marks.push_back(k);
    if (type == T::open || type == T::begin) ++depth;
    if ((type == T::close || type == T::finish) && depth > 0) --depth;
  }
  if (marks.empty() || tokens_[marks.back()].type != T::finish) return;
  const auto empty = [&](std::size_t m) {
    return m == 0 ? marks[0] == begin : marks[m] == marks[m - 1] + 1;
  };  // the cell before a mark
  const auto aligns = [&](std::size_t m) {
    return is_relation(tokens_[marks[m] - 1]) || is_relation(tokens_[marks[m] + 1]);
  };
  const auto is_cell = [&](std::size_t m) { return tokens_[marks[m]].type == T::cell; };
  bool aligned = false, one_row = true;
  for (std::size_t m = 0; m + 1 < marks.size(); ++m) {
    aligned = aligned || (is_cell(m) && aligns(m));
    one_row = one_row && (is_cell(m) || empty(m + 1));
  }
  if (array && !aligned) return;  // a matrix
  tokens_[begin - 1].text = "cases";
  std::vector<std::uint8_t> dropped(tokens_.size(), 0);
  bool relation = false, left = false, filled = false;
  const auto note_cell = [&](std::size_t m) {
    for (std::size_t k = m == 0 ? begin : marks[m - 1] + 1; k < marks[m]; ++k)
      relation = relation || is_relation(tokens_[k]);
    filled = filled || !empty(m);
  };
  for (std::size_t m = 0; m < marks.size(); ++m) {
    const bool starts = m == 0 || !is_cell(m - 1);
    if (starts) left = !empty(m), relation = filled = false;
    note_cell(m);
    const Token &sign = tokens_[marks[m] - 1], &next = tokens_[std::min(marks[m] + 1, tokens_.size() - 1)];
    if (!is_cell(m)) {
      if (tokens_[marks[m]].type == T::newline) {
        const std::size_t first = next.type == T::cell ? marks[m] + 2 : marks[m] + 1;
        const bool operation = next.type == T::cell && left && is_operation(tokens_[first]);
        if (is_relation(tokens_[first]) || operation) dropped[marks[m]] = 1;
      }
      continue;
    }
    const bool last_of_row = m + 1 == marks.size() || !is_cell(m + 1);
    if (!filled || empty(m + 1) || (aligned && aligns(m)) || (aligned && (is_operation(sign) || is_operation(next)))) {
      dropped[marks[m]] = 1;
    } else if (one_row && relation && !last_of_row && aligns(m + 1)) {
      tokens_[marks[m]].type = T::newline;  // x &= 5 & y &= 6
    }
  }
  std::size_t kept = 0;
  for (std::size_t k = 0; k < tokens_.size(); ++k)
    if (dropped[k] == 0) tokens_[kept++] = tokens_[k];
  tokens_.resize(kept);
}

NodeIdx Parser::environment(std::string_view name) {
  if (++depth_ > kMaxTreeDepth) return fail(Fault::nested_too_deep);
  ++at_;
  lay_out_rows(at_);
  name = tokens_[at_ - 1].text;
  std::vector<Link> entries;
  std::int32_t columns = 0, in_row = 0;
  const int outer_bars = std::exchange(num_bars_, 0);
  const bool outer_set = std::exchange(in_set_, false), outer_separated = std::exchange(separated_, false);
  for (bool missing = true; ok_;) {
    const T type = now().type;
    if (type == T::end) return fail(Fault::open_bracket);
    if (type != T::cell && type != T::newline && type != T::finish) {
      entries.push_back({entry(), 0});
      missing = false;
      continue;
    }
    const bool trailing = type == T::finish && in_row == 0 && missing && !entries.empty();
    if (!trailing && missing) entries.push_back({make(Kind::words, {}, ""), 0});
    in_row += trailing ? 0 : 1;
    missing = true;
    ++at_;
    if (type == T::cell) continue;
    if (columns == 0) columns = in_row;
    if (!trailing && in_row != columns) return fail(Fault::unlike_rows);
    in_row = 0;
    if (type == T::finish) break;
  }
  num_bars_ = outer_bars;
  in_set_ = outer_set;
  separated_ = outer_separated;
  --depth_;
  const bool cases = name.starts_with("cases");
  if (ok_ && cases && entries.size() == 1) return entries.front().node;
  const NodeIdx matrix = make(Kind::matrix, entries, cases ? "cases" : name);
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

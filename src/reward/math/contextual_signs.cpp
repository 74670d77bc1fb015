#include "reward/math/contextual_signs.h"

#include <algorithm>

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool is_before_item(const Token& token) noexcept {
  return token.type == T::relation || token.type == T::separator || token.type == T::word || is_set_operator(token);
}

bool ends_operand(const Token& token) noexcept {
  const bool sign = token.type == T::op && (token.code == '!' || token.code == '%' || token.code == 'd');
  return token.type == T::number || token.type == T::symbol || token.type == T::constant || token.type == T::close ||
         sign;
}

}  // namespace

void make_contextual_signs_round(std::vector<Token>& tokens) {
  std::vector<bool> separated;  // of each bracket that is open, whether it has several members
  for (std::size_t k = 0; k + 1 < tokens.size(); ++k) {
    Token& token = tokens[k];
    const Token& next = tokens[k + 1];
    if (token.type == T::separator && !separated.empty()) {
      separated.back() = true;
    } else if (token.type == T::open) {
      const bool several = !separated.empty() && separated.back();
      const bool ends = next.type == T::end || next.type == T::close || is_before_item(next);
      if (token.code == '[' && several && ends && ends_operand(tokens[k - 1])) {
        token.type = T::close;
        token.code = ')';
        separated.pop_back();
      } else {
        separated.push_back(false);
      }
    } else if (token.type == T::close) {
      if (token.code == ']' && separated.empty() && (k == 0 || is_before_item(tokens[k - 1]))) {
        token.type = T::open;
        token.code = '(';
        separated.push_back(false);
      } else if (!separated.empty()) {
        separated.pop_back();
      }
    }
  }
}

void make_builder_braces_shown(std::vector<Token>& tokens) noexcept {
  const auto is_open_brace = [](const Token& token) { return token.type == T::open && token.code == '{'; };
  for (std::size_t k = 0; k + 3 < tokens.size(); ++k) {
    if (!is_open_brace(tokens[k]) || tokens[k + 1].type != T::symbol) continue;
    if (k > 0 && !is_before_item(tokens[k - 1])) continue;
    std::size_t bar = k + 2;
    if (tokens[bar].type == T::relation && tokens[bar].code == 'e' && tokens[bar + 1].type == T::symbol) bar += 2;
    if (bar >= tokens.size()) return;
    if (tokens[bar].type != T::bar && (tokens[bar].type != T::op || tokens[bar].code != ':')) continue;
    bool relation = false;
    std::size_t end = bar + 1, depth = 1;
    for (; end < tokens.size(); ++end) {
      if (is_open_brace(tokens[end])) ++depth;
      if (tokens[end].type == T::close && tokens[end].code == '}' && --depth == 0) break;
      relation = relation || tokens[end].type == T::relation;
    }
    if (end == tokens.size()) return;
    if (relation) tokens[k].code = tokens[end].code = 'S';
    k = end;
  }
}

bool drop_numbers_repeated(std::vector<Token>& tokens) {
  constexpr std::size_t kMaxDropped = 8;  // taking each out costs a walk
  std::size_t num_dropped = 0;
  for (std::size_t open = 1; open + 2 < tokens.size() && num_dropped < kMaxDropped; ++open) {
    if (tokens[open].type != T::open || tokens[open].code != '(') continue;
    if (tokens[open - 1].type != T::number || tokens[open + 1].type != T::number) continue;
    if (tokens[open - 1].code != kInWords && tokens[open + 1].code != kInWords) continue;
    std::size_t size = 0, close = open + 1;  // of the number in words
    while (tokens[close].type == T::number || tokens[close].type == T::op) ++close, ++size;
    while (tokens[close].type == T::word) ++close;
    if (tokens[close].type != T::close) continue;
    const auto words = tokens.begin() + static_cast<std::ptrdiff_t>(open) + 1;
    const auto end = words + static_cast<std::ptrdiff_t>(size);
    const auto same = [](const Token& a, const Token& b) { return a.type == b.type && a.text == b.text; };
    if (size > open || !std::equal(words, end, words - 1 - static_cast<std::ptrdiff_t>(size), same)) return false;
    tokens.erase(words - 1, tokens.begin() + static_cast<std::ptrdiff_t>(close) + 1);
    ++num_dropped;
  }
  return true;
}

void make_words_ratios(std::vector<Token>& tokens) noexcept {
  std::size_t begin = 0, end = tokens.size() - 1;  // without the end, and without braces around it all
  while (end > begin + 2 && tokens[begin].type == T::open && tokens[begin].code == '{' &&
         tokens[end - 1].type == T::close && tokens[end - 1].code == '}')
    ++begin, --end;
  if (end < begin + 3 || (end - begin) % 2 == 0) return;
  for (std::size_t k = begin; k < end; ++k) {
    const bool joint = (k - begin) % 2 == 1;
    if (tokens[k].type != (joint ? T::word : T::number) || (joint && tokens[k].text != "to")) return;
  }
  for (std::size_t k = begin + 1; k < end; k += 2) tokens[k] = {T::op, ':', tokens[k].space, tokens[k].newline, {}};
}

void make_letters_operators(std::vector<Token>& tokens) noexcept {
  const auto is_bracket = [](const Token& token, T type) {
    return token.type == type && std::string_view("()[]").find(token.code) != std::string_view::npos;
  };
  for (std::size_t k = 1; k + 2 < tokens.size(); ++k) {
    Token& token = tokens[k];
    const Token &before = tokens[k - 1], &next = tokens[k + 1], &behind = tokens[k + 2];
    if (token.type != T::symbol) continue;
    if (token.text == "U" && is_bracket(before, T::close) && is_bracket(next, T::open)) {
      token = {T::op, 'U', token.space, token.newline, token.text};
    } else if (token.text == "x" && before.type == T::number && next.type == T::number && next.text == "10" &&
               behind.type == T::op && behind.code == '^') {
      token = {T::op, '*', token.space, token.newline, token.text};
    }
  }
}

}  // namespace qrl::reward::math

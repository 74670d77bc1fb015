#include "reward/math/contextual_signs.h"

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

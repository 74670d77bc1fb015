#include "reward/math/contextual_signs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reward/math/texts.h"

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

void make_hedges_relations(std::vector<Token>& tokens) {
  constexpr std::size_t kMaxMade = 8;  // taking what they stand for out costs a walk
  std::size_t num_made = 0;
  for (std::size_t k = 2; k + 1 < tokens.size() && num_made < kMaxMade; ++k) {
    const Token& word = tokens[k];
    const bool joined = tokens[k - 1].type == T::separator && tokens[k - 1].code == '|';
    if (!joined || word.type != T::word || tokens[k + 1].type != T::number) continue;
    if (std::find(std::begin(kHedges), std::end(kHedges), word.text) == std::end(kHedges)) continue;
    std::size_t first = k - 1;
    while (first > 1 && tokens[first - 1].type == T::separator) --first;
    tokens[k] = {T::relation, 'a', true, false, {}};
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.begin() + static_cast<std::ptrdiff_t>(k));
    k = first + 1;
    ++num_made;
  }
}

namespace {

bool is_sign(const Token& token, T type, char code) noexcept { return token.type == type && token.code == code; }

/// The end of 10 or {10} at tokens[k]; k where it is something else. Leaves the number in `number`.
std::size_t end_of_script(const std::vector<Token>& tokens, std::size_t k, Token& number) noexcept {
  const bool braced = is_sign(tokens[k], T::open, '{') && k + 2 < tokens.size();
  const std::size_t at = braced ? k + 1 : k;
  if (tokens[at].type != T::number || (braced && !is_sign(tokens[at + 1], T::close, '}'))) return k;
  number = tokens[at];
  return at + (braced ? 2 : 1);
}

}  // namespace

void make_scripts_binomials(std::vector<Token>& tokens) {
  constexpr std::size_t kMaxMade = 8;
  std::size_t num_made = 0;
  for (std::size_t k = 0; k + 4 < tokens.size() && num_made < kMaxMade; ++k) {
    if (!is_sign(tokens[k], T::op, '_') && !is_sign(tokens[k], T::op, '^')) continue;
    const bool hollow = k > 1 && is_sign(tokens[k - 2], T::open, '{') && is_sign(tokens[k - 1], T::close, '}');
    if (!hollow && k > 0 && ends_operand(tokens[k - 1])) continue;
    Token n, r;
    const std::size_t letter = end_of_script(tokens, k + 1, n);
    if (letter == k + 1 || letter + 2 >= tokens.size() || tokens[letter].type != T::symbol) continue;
    const bool ordered = tokens[letter].text == "P";
    const std::size_t end = is_sign(tokens[letter + 1], T::op, '_') ? end_of_script(tokens, letter + 2, r) : 0;
    if ((!ordered && tokens[letter].text != "C") || end <= letter + 2) continue;
    const Token open{T::open, '{', false, false, {}}, close{T::close, '}', false, false, {}};
    std::vector<Token> made{{T::fraction, 'b', tokens[k].space, false, {}}, open, n, close, open, r, close};
    if (ordered) made.insert(made.end(), {{T::op, '*', false, false, {}}, r, {T::op, '!', false, false, {}}});
    const std::size_t begin = hollow ? k - 2 : k;
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    tokens.insert(tokens.erase(from, tokens.begin() + static_cast<std::ptrdiff_t>(end)), made.begin(), made.end());
    k = begin + made.size() - 1;
    ++num_made;
  }
}

namespace {

/// The digits at the end of a decimal's places that repeat as its dots say; 0 where they do not.
std::size_t period_of(std::string_view places) noexcept {
  for (const auto& [period, times] : {std::pair{1, 3}, std::pair{2, 2}, std::pair{3, 2}, std::pair{6, 2}}) {
    const auto size = static_cast<std::size_t>(period * times), shift = static_cast<std::size_t>(period);
    if (places.size() < size) continue;
    const std::string_view tail = places.substr(places.size() - size);
    if (tail.substr(shift) == tail.substr(0, size - shift)) return shift;
  }
  return 0;
}

}  // namespace

void make_dotted_decimals_repeat(std::vector<Token>& tokens, std::vector<char>& source) {
  for (std::size_t k = 1; k < tokens.size(); ++k) {
    Token& number = tokens[k - 1];
    if (tokens[k].type != T::dots || number.type != T::number) continue;
    const std::size_t point = number.text.find('.');
    const bool decimal = point != std::string_view::npos && number.text.find_first_of("(e") == std::string_view::npos;
    if (!decimal && (tokens[k + 1].type != T::end || k > 1)) continue;  // 1, 2, 3\ldots goes on
    std::size_t period = decimal ? period_of(number.text.substr(point + 1)) : 0;
    std::string_view places = decimal ? number.text.substr(point + 1) : std::string_view();
    if (period > 0) {  // written over its repetitions, which are two characters more at least
      while (places.size() >= 2 * period &&
             places.substr(places.size() - 2 * period, period) == places.substr(places.size() - period))
        places.remove_suffix(period);
      const std::string repeating = "(" + std::string(places.substr(places.size() - period)) + ")";
      const std::size_t kept = point + 1 + places.size() - period;
      char* const begin = source.data() + (number.text.data() - source.data());
      std::copy(repeating.begin(), repeating.end(), begin + kept);
      number.text = {begin, kept + repeating.size()};
    }
    tokens[k].type = T::separator;
    tokens[k].code = 0;
  }
  std::erase_if(tokens, [](const Token& token) { return token.type == T::separator && token.code == 0; });
}

namespace {

/// Whether a name and "=" begin at tokens[k]: x, a_1, a_{10} or f(2).
bool begins_equation(const std::vector<Token>& tokens, std::size_t k) noexcept {
  constexpr std::size_t kMaxName = 8;
  if (tokens[k].type != T::symbol) return false;
  std::size_t depth = 0;
  for (std::size_t j = k + 1; j < tokens.size() && j < k + kMaxName; ++j) {
    const Token& token = tokens[j];
    if (depth == 0 && is_sign(token, T::relation, '=')) return true;
    if (token.type == T::open) ++depth;
    else if (token.type == T::close && depth > 0) --depth;
    else if (depth == 0 && !is_sign(token, T::op, '_') && !is_sign(tokens[j - 1], T::op, '_')) return false;
  }
  return false;
}

}  // namespace

void separate_equations(std::vector<Token>& tokens) {
  constexpr std::size_t kMaxMade = 8;
  std::size_t num_made = 0, depth = 0;
  bool equation = false;  // since the last separator
  for (std::size_t k = 0; k + 1 < tokens.size() && num_made < kMaxMade; ++k) {
    const Token& token = tokens[k];
    if (token.type == T::open || token.type == T::begin) ++depth;
    if ((token.type == T::close || token.type == T::finish) && depth > 0) --depth;
    if (depth > 0) continue;
    if (token.type == T::separator) equation = false;
    if (is_sign(token, T::relation, '=')) equation = true;
    if (!token.newline || !begins_equation(tokens, k) || !equation || !ends_operand(tokens[k - 1])) continue;
    tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(k), {T::separator, ',', true, false, {}});
    equation = false;
    ++num_made;
  }
}

}  // namespace qrl::reward::math

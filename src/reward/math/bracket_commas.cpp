#include "reward/math/bracket_commas.h"

#include <algorithm>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

/// Whether what stands behind a bracket leaves it an item: nothing, a separator, another bracket's end, a relation, a
/// union, a word that joins.
bool ends_item(std::string_view rest) noexcept {
  for (;;) {
    while (!rest.empty() &&
           (base::is_space(rest.front()) || rest.front() == '$' || rest.front() == '.' || rest.front() == '~'))
      rest.remove_prefix(1);
    constexpr std::string_view kSpaces[] = {"\\,", "\\;", "\\:", "\\!", "\\ "};
    const auto* space =
        std::find_if(std::begin(kSpaces), std::end(kSpaces), [rest](auto s) { return rest.starts_with(s); });
    if (space == std::end(kSpaces)) break;
    rest.remove_prefix(space->size());
  }
  if (rest.empty() || std::string_view(",;)]}=<>&|").find(rest.front()) != std::string_view::npos) return true;
  constexpr std::string_view kJoining[] = {
      "\\right", "\\}",     "\\rbrace", "\\\\",  "\\text{ and", "\\text{and", "\\text{ or", "\\text{or",
      "\\quad",  "\\qquad", "\\cup",    "\\cap", "\\union",     "\\setminus", "\\end",      "\\le",
      "\\ge",    "and",     "or",       "U ",    "in ",         "is ",        "if "};
  return std::any_of(std::begin(kJoining), std::end(kJoining), [rest](auto word) { return rest.starts_with(word); });
}

}  // namespace

bool BracketCommas::begins_item(std::size_t open) const noexcept {
  const char code = tokens_[open].code;
  if (code == '{') return open == 0 && begins_with_brace_;
  if (code != '(' && code != '[' && code != 'S') return false;
  if (open == 0) return true;
  const Token& before = tokens_[open - 1];
  switch (before.type) {
    case T::open:
    case T::separator:
    case T::relation:
    case T::begin:
    case T::cell:
    case T::newline:
    case T::word:
      return true;
    case T::symbol:  // the point A(1,234)
      return before.text.size() == 1 && before.text[0] <= 'Z';
    default:
      return is_set_operator(before);
  }
}

void BracketCommas::pushed(std::string_view rest) {
  const Token& token = tokens_.back();
  if (token.type == T::open || token.type == T::begin) {
    brackets_.push_back({tokens_.size() - 1, token.type == T::open && begins_item(tokens_.size() - 1), false});
  } else if (token.type == T::separator && !brackets_.empty()) {
    brackets_.back().separated = true;
  } else if ((token.type == T::close || token.type == T::finish) && !brackets_.empty()) {
    const Bracket bracket = brackets_.back();
    const std::size_t depth = brackets_.size();
    brackets_.pop_back();
    const bool whole = token.code == '}' ? rest.find_first_not_of(" .$\n") == std::string_view::npos : ends_item(rest);
    const bool apart = bracket.item && !bracket.separated && whole;
    for (; !numbers_.empty() && numbers_.back().depth >= depth; numbers_.pop_back()) {
      if (apart && numbers_.back().depth == depth) take_apart(numbers_.back());
    }
  }
}

void BracketCommas::pushed_thousands(std::size_t first_group) {
  if (!brackets_.empty()) numbers_.push_back({tokens_.size() - 1, first_group, brackets_.size()});
}

void BracketCommas::take_apart(const Number& number) {
  const Token whole = tokens_[number.at];
  std::vector<Token> parts;
  const auto add = [&](std::string_view text) {
    if (!parts.empty()) parts.push_back({T::separator, ',', false, false, {}});
    parts.push_back({T::number, 0, parts.empty() && whole.space, parts.empty() && whole.newline, text});
  };
  const std::size_t digits = std::min(whole.text.find_first_not_of("0123456789"), whole.text.size());
  std::size_t end = number.first_group;
  add(whole.text.substr(0, end));
  for (; end + 3 < digits; end += 3) add(whole.text.substr(end, 3));
  add(whole.text.substr(end));
  const auto at = tokens_.begin() + static_cast<std::ptrdiff_t>(number.at);
  *at = parts.front();
  tokens_.insert(at + 1, parts.begin() + 1, parts.end());
}

}  // namespace qrl::reward::math

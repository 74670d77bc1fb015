#include <algorithm>
#include <cstring>

#include "base/ascii.h"
#include "reward/math/extract.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;
using W = WordClass;

constexpr std::size_t kMaxSentence_bytes = 400;
constexpr std::string_view kBold = "**", kDigits = "0123456789", kFigures = "0123456789$", kEnds = ".,;\\",
                           kApart = "([;, ", kBreaks = " ,:", kValues = "0123456789$\\", kPause = "...",
                           kArticle = " a", kAnd = " and ", kLoss = "($";

bool is_capital(char c) noexcept { return c >= 'A' && c <= 'Z'; }

bool has_value(std::string_view text) noexcept { return text.find_first_of(kValues) != std::string_view::npos; }

std::string_view last_word(std::string_view text) noexcept {
  std::size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin);
}

std::size_t formula_begin(std::string_view text, const Vocabulary& vocabulary) {
  std::size_t first = 0;
  for (Words words{text}; words.next();) {
    const Meaning* meaning = vocabulary.word(text.substr(words.begin, words.word.size()));
    const bool symbol = meaning != nullptr && meaning->type != TokenType::separator && meaning->type != TokenType::op;
    const std::size_t brace = text.find_last_of("{}", words.begin);  // ignores the name in \begin{pmatrix}
    const bool inside = brace != std::string_view::npos && text[brace] == '{';
    if (words.word.size() > 1 && !symbol && !inside) first = words.end;
  }
  return first;
}

bool ends_between(std::string_view before, char c, std::string_view behind, const Vocabulary& vocabulary) {
  const bool apart = behind.empty() || is_space(behind[0]);
  if (c == '\n') return true;
  if (c == '.')  // except in "Mr.", "..." and "A. 42"
    return apart && !before.ends_with('.') && !vocabulary.is(W::shortened, in_lower_case(last_word(before))) &&
           (before.size() != 1 || !is_choice(before[0]) || behind.size() < 2 || is_letter(behind[1]));
  if (c == '!') return apart && behind.size() > 1 && is_capital(behind[1]);
  if (c == ' ')
    return !behind.empty() && is_capital(behind[0]) && vocabulary.is(W::concluding, in_lower_case(letters_of(behind)));
  if (c != '<' || !behind.starts_with('/')) return false;
  const std::string_view after = trimmed(behind.substr(std::min(behind.find('>') + 1, behind.size())));
  return after.empty() || !is_letter(after[0]);  // except in "<b>x</b> of"
}

}  // namespace

std::size_t find_last(std::string_view text, std::string_view needle) noexcept {
  for (std::size_t size = text.size(); size > 0;) {
    const void* at = memrchr(text.data(), needle.front(), size);
    if (at == nullptr) break;
    size = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    if (text.substr(size).starts_with(needle)) return size;
  }
  return std::string_view::npos;
}

std::string_view bare(std::string_view text) noexcept {
  for (std::size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text = trimmed(text);
    for (const auto& [open, close] : shells()) {
      if (text.size() < open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) continue;
      const std::string_view inside = text.substr(open.size(), text.size() - open.size() - close.size());
      if (inside.find(close) == std::string_view::npos) text = trimmed(inside);
    }
    while (!text.empty() && (has(kEnds, text.back()) || is_space(text.back())) && !text.ends_with(kPause))
      text.remove_suffix(1);
  }
  return text;
}

std::string_view item_of(std::string_view line) noexcept {
  line = trimmed(line);
  if (line.starts_with("- ") || line.starts_with("* ")) return trimmed(line.substr(2));
  const bool numbered = line.size() > 3 && is_digit(line[0]) && (line[1] == '.' || line[1] == ')') && line[2] == ' ';
  return numbered ? trimmed(line.substr(3)) : std::string_view();
}

std::string_view sentence(std::string_view text, const Vocabulary& vocabulary) {
  std::size_t end = 0;
  while (end < text.size() && !ends_between(text.substr(0, end), text[end], text.substr(end + 1), vocabulary)) ++end;
  return text.substr(0, end);
}

std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary) {
  std::string text(bare(clause));
  for (std::size_t at = text.find(kBold); at != std::string::npos; at = text.find(kBold, at)) text.erase(at, 2);
  std::string_view rest = bare(text);
  for (Words words{rest}; words.next() && words.begin == 0 && vocabulary.is(W::leading, words.word); words = {rest}) {
    const std::size_t next = rest.find_first_not_of(kBreaks, words.end);
    if (next == words.end || next == std::string_view::npos) break;
    rest.remove_prefix(next);
  }
  for (Words words{rest}; words.next();) {
    const std::string_view before = trimmed(rest.substr(0, words.begin));
    if (before.empty()) continue;
    const bool apart = has(kApart, before.back()) && words.word.size() > 1 && has_value(before);
    const bool closes = vocabulary.is(W::closing, words.word) && !vocabulary.is(W::refusal, last_word(before));
    const bool denies = before.back() == ',' && vocabulary.is(W::denial, words.word);
    if (!closes && !denies && (!apart || vocabulary.is(W::changing, words.word))) continue;
    rest = before.substr(0, before.find_last_not_of(kApart) + 1);
    break;
  }
  if (rest.ends_with(kArticle) && has_value(rest)) rest.remove_suffix(kArticle.size());
  return std::string(bare(rest));
}

bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary) {
  for (Words words{text}; words.next();)
    if (vocabulary.is_word(words.word) && !vocabulary.word(words.word) && vocabulary.unit(words.word).code == 0)
      return false;
  return true;
}

std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary) {
  const std::size_t last = text.find_last_of(kDigits) + 1;
  if (last == 0) return std::nullopt;
  const char* const end = text.data() + last;
  text.remove_prefix(std::max(text.substr(0, last).rfind('\n') + 1, last - std::min(last, kMaxSentence_bytes)));
  std::string_view said = sentence(text, vocabulary);
  for (; said.data() + said.size() < end; said = sentence(text, vocabulary)) text.remove_prefix(said.size() + 1);
  const std::size_t first = formula_begin(said.substr(0, static_cast<std::size_t>(end - said.data())), vocabulary);
  std::string_view formula = trimmed(said.substr(std::min(said.find_first_not_of(kBreaks, first), said.size())));
  const std::size_t and_at = formula.find(kAnd), behind = and_at + kAnd.size();  // "in April and May"
  if (and_at != std::string_view::npos && behind < formula.size() && is_capital(formula[behind]))
    formula = formula.substr(0, and_at);
  const bool fits = !formula.starts_with('{') && !formula.starts_with(kLoss);
  const std::string_view before = trimmed(said.substr(0, first));
  const bool stated = formula.find('=') != std::string_view::npos || vocabulary.is(W::verb, last_word(before));
  const std::size_t other = before.find_last_of(kFigures) + 1;  // other number: "2 hours and 30 minutes"
  const std::string_view between = before.substr(other);
  constexpr std::ptrdiff_t kFewWords = 2;
  const bool one_of_several = other > 0 && !stated && (between.empty() || has(kBreaks, between[0])) &&
                              std::ranges::count(between, ' ') <= kFewWords;
  const bool refused = vocabulary.any(W::refusal, before) || vocabulary.ends(W::operand, before);
  if (!fits || one_of_several || refused) return std::nullopt;
  return value_of_clause(formula, vocabulary);
}

}  // namespace qrl::reward::math

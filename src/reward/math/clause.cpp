#include "reward/math/clause.h"

#include <algorithm>
#include <cstring>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;

constexpr std::size_t kMaxSentence_bytes = 400;  // of a sentence that a last number may stand in
constexpr std::string_view kBold = "**", kDigits = "0123456789", kNumbers = "0123456789$", kClosing = ".,;\\",
                           kApart = "([;, ", kBreaks = " ,:", kValues = "0123456789$\\", kPause = "...",
                           kArticle = " a", kAnd = " and ", kLoss = "($";

bool has(std::string_view characters, char c) noexcept { return characters.find(c) != std::string_view::npos; }
bool is_capital(char c) noexcept { return c >= 'A' && c <= 'Z'; }

/// The letters that a text ends with.
std::string_view last_word(std::string_view text) noexcept {
  std::size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin);
}

/// Where the formula begins that ends a text: behind the last word in it that is no mathematics.
std::size_t formula_begin(std::string_view text, const Vocabulary& vocabulary) {
  std::size_t first = 0;
  int depth = 0;
  for (std::size_t k = 0; k < text.size();) {
    const char c = text[k], before = k == 0 ? '\0' : text[k - 1];
    std::size_t end = k;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view word = text.substr(k, end - k);
    const Meaning* meaning = vocabulary.word(word);
    const bool symbol = meaning != nullptr && meaning->type != TokenType::separator && meaning->type != TokenType::op;
    const bool ratio = is_digit(before) || (before == ' ' && k > 1 && is_digit(text[k - 2]));
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (word.size() > 1 && depth <= 0 && before != '\\' && !symbol) first = end;
    if ((c == ':' && !ratio) || (c == '>' && is_letter(before))) first = k + 1;  // <b>2
    k = std::max(end, k + 1);
  }
  return first;
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
    while (!text.empty() && has(kClosing, text.back()) && !text.ends_with(kPause)) text.remove_suffix(1);
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
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    const std::string_view behind = text.substr(k + 1);
    const bool apart = behind.empty() || is_space(behind[0]);
    bool ends = c == '\n';
    if (c == '.' && apart) {  // not that of "Mr." and of "..."
      std::size_t word = 0;
      ends = !has(".", k == 0 ? ' ' : text[k - 1]) &&
             !vocabulary.is(WordClass::shortened, lower_word(last_word(text.substr(0, k)), word)) &&
             (k != 1 || !is_choice(text[0]) || behind.size() < 2 || is_letter(behind[1]));  // A. 42
    } else if (c == '!') {
      ends = behind.size() > 1 && apart && is_capital(behind[1]);
    } else if (c == ' ' && !behind.empty() && is_capital(behind[0])) {
      std::size_t word = 0;
      ends = vocabulary.is(WordClass::concluding, lower_word(behind, word));
    } else if (c == '<' && behind.starts_with('/')) {  // no "<b>x</b> of"
      const std::string_view after = trimmed(text.substr(std::min(text.find('>', k), text.size() - 1) + 1));
      ends = after.empty() || !is_letter(after[0]);
    }
    if (ends) return text.substr(0, k);
  }
  return text;
}

std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary) {
  std::string text(bare(clause));
  for (std::size_t at = text.find(kBold); at != std::string::npos; at = text.find(kBold, at)) text.erase(at, 2);
  std::string_view rest = bare(text);
  for (std::size_t end = 0; vocabulary.is(WordClass::leading, lower_word(rest, end)); end = 0) {
    const std::size_t next = rest.find_first_not_of(kBreaks, end);
    if (next == end || next == std::string_view::npos) break;
    rest.remove_prefix(next);
  }
  bool value = false;  // something with a digit or a formula came before
  for (std::size_t k = 0; k < rest.size();) {
    value = value || has(kValues, rest[k]);
    std::size_t end = k;
    const std::string word = lower_word(rest, end);
    const std::string_view before = word.empty() ? std::string_view() : trimmed(rest.substr(0, k));
    if (!before.empty() && before.back() != '\\') {
      const bool apart = has(kApart, before.back()) && value && word.size() > 1;
      const bool closes =
          vocabulary.is(WordClass::closing, word) && !vocabulary.is(WordClass::refusal, last_word(before));
      const bool denies = before.back() == ',' && vocabulary.is(WordClass::denial, word);
      if (closes || denies || (apart && !vocabulary.is(WordClass::changing, word))) {
        rest = before.substr(0, before.find_last_not_of(kApart) + 1);
        break;
      }
    }
    k = std::max(end, k + 1);
  }
  if (value && rest.ends_with(kArticle)) rest.remove_suffix(kArticle.size());
  return std::string(bare(rest));
}

bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary) {
  bool words = text.empty();
  for_each_word(text, [&](const std::string& word) {
    words =
        words || (vocabulary.is_word(word) && vocabulary.word(word) == nullptr && vocabulary.unit(word).dimension == 0);
  });
  return !words;
}

std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary) {
  const std::size_t digit = text.find_last_of(kDigits) + 1;
  if (digit == 0) return std::nullopt;
  std::size_t begin = text.substr(0, digit).rfind('\n') + 1;
  begin = std::max(begin, digit - std::min(digit, kMaxSentence_bytes));
  std::string_view said = sentence(text.substr(begin), vocabulary);
  while (begin + said.size() < digit) {
    begin += said.size() + 1;
    said = sentence(text.substr(begin), vocabulary);
  }
  const std::size_t first = formula_begin(said.substr(0, digit - begin), vocabulary);
  std::string_view formula = trimmed(said.substr(std::min(said.find_first_not_of(kBreaks, first), said.size())));
  const std::size_t and_at = formula.find(kAnd), behind = and_at + kAnd.size();  // in April and May
  if (and_at != std::string_view::npos && behind < formula.size() && is_capital(formula[behind]))
    formula = formula.substr(0, and_at);
  const bool fits = !formula.empty() && formula[0] != '{' && !formula.starts_with(kLoss);
  const std::string_view before = trimmed(said.substr(0, first));
  const bool stated = formula.find('=') != std::string_view::npos || vocabulary.is(WordClass::verb, last_word(before));
  const std::size_t other = before.find_last_of(kNumbers) + 1;  // 2 hours and 30 minutes
  const std::string_view between = before.substr(other);
  constexpr std::ptrdiff_t kFewWords = 2;
  const bool one_of_several = other > 0 && !stated && (between.empty() || has(kBreaks, between[0])) &&
                              std::ranges::count(between, ' ') <= kFewWords;
  const bool refused = vocabulary.any(WordClass::refusal, before) || vocabulary.ends(WordClass::operand, before);
  if (!fits || one_of_several || refused) return std::nullopt;
  return value_of_clause(formula, vocabulary);
}

}  // namespace qrl::reward::math

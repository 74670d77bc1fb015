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
constexpr std::string_view kClosing = ".,;\\", kApart = "([;,", kBreaks = " ,:", kValues = "0123456789$\\",
                           kNoNames = "aAI", kOperations = "+/^_<>\\-", kOrnaments = " *_\"!\r", kSigns = "-$",
                           kNumbers = "0123456789.,/:-$ to", kPause = "...", kArticle = " a", kOne = " one",
                           kAnd = " and ";

bool has(std::string_view characters, char c) noexcept { return characters.find(c) != std::string_view::npos; }

/// The letters that a text ends with.
std::string_view last_word(std::string_view text) noexcept {
  std::size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin);
}

/// Whether the full stop at `k` ends a sentence: not that of "Mr." and of "...".
bool stops(std::string_view text, std::size_t k) noexcept {
  std::size_t at = 0;
  const std::string_view before = text.substr(0, k);
  return (k + 1 == text.size() || is_space(text[k + 1])) && !before.ends_with('.') &&
         !default_vocabulary().is(WordClass::shortened, lower_word(last_word(before), at));
}

}  // namespace

std::size_t find_last(std::string_view text, std::string_view needle) noexcept {
  constexpr int kMaxMisses = 1000;  // a call for each costs more than a look at every byte
  for (int misses = 0; text.size() >= needle.size(); ++misses) {
    const void* at = memrchr(text.data(), needle.front(), text.size() - needle.size() + 1);
    if (at == nullptr) return std::string_view::npos;
    auto found = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    while (misses == kMaxMisses && found > 0 && !text.substr(found).starts_with(needle)) --found;
    if (text.substr(found).starts_with(needle)) return found;
    text = text.substr(0, misses == kMaxMisses ? 0 : found + needle.size() - 1);
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
    if (text.starts_with(':')) text.remove_prefix(1);
  }
  return text;
}

std::string_view without_control_tokens(std::string_view text) noexcept {
  for (text = trimmed(text);; text = trimmed(text)) {
    const bool token = text.ends_with("|>"), end = text.ends_with("</s>");
    const std::size_t open = token ? find_last(text, "<|") : end ? text.size() - 4 : std::string_view::npos;
    if (open == std::string_view::npos) return text;
    text = text.substr(0, open);
  }
}

std::string_view item_of(std::string_view line) noexcept {
  line = trimmed(line);
  if (line.starts_with("- ") || line.starts_with("* ")) return trimmed(line.substr(2));
  const bool numbered = line.size() > 3 && is_digit(line[0]) && (line[1] == '.' || line[1] == ')') && line[2] == ' ';
  return numbered ? trimmed(line.substr(3)) : std::string_view();
}

std::string_view sentence(std::string_view text) noexcept {
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k], next = k + 1 < text.size() ? text[k + 1] : '\n';
    if (c == '<' && next == '/') {  // "<b>x</b> of"
      const std::string_view behind = trimmed(text.substr(std::min(text.find('>', k), text.size() - 1) + 1));
      if (behind.empty() || !is_letter(behind[0])) return text.substr(0, k);
    }
    const bool label = k == 1 && is_choice(text[0]) && text.size() > 3 && !is_letter(text[3]);  // A. 42
    const bool shouts = c == '!' && is_space(next) && k + 2 < text.size() && text[k + 2] >= 'A' && text[k + 2] <= 'Z';
    if (c == '\n' || shouts || (c == '.' && !label && stops(text, k))) return text.substr(0, k);
  }
  return text;
}

std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary) {
  std::string text(bare(clause));
  for (std::size_t at = text.find(kBold); at != std::string::npos; at = text.find(kBold, at)) text.erase(at, 2);
  std::string_view rest = bare(text);
  for (;;) {  // leading words, before a number or a formula
    std::size_t end = 0;
    const bool leads = vocabulary.is(WordClass::leading, lower_word(rest, end));
    if (!leads || end == rest.size() || !has(kBreaks, rest[end]) || rest.find_first_of(kValues) == std::string::npos)
      break;
    rest = trimmed(rest.substr(end));
    while (rest.starts_with(',') || rest.starts_with(':')) rest = trimmed(rest.substr(1));
  }
  bool value = false;  // something with a digit or a formula came before
  int depth = 0;
  for (std::size_t k = 0; k < rest.size(); ++k) {
    const char c = rest[k];
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    value = value || has(kValues, c);
    if (const std::size_t close = c == '$' ? rest.find('$', k + 1) : std::string_view::npos;
        close != std::string_view::npos)
      k = close;
    if (depth != 0 || !is_letter(c)) continue;
    std::size_t end = k;
    const std::string word = lower_word(rest, end);
    std::string_view before = trimmed(rest.substr(0, k));
    const char mark = before.empty() ? '\0' : before.back();
    const bool explains = has(kApart, mark) && value && word.size() > 1 && vocabulary.word(word) == nullptr &&
                          !vocabulary.is(WordClass::changing, word);
    const bool closes =
        vocabulary.is(WordClass::closing, word) && !vocabulary.is(WordClass::refusal, std::string(last_word(before)));
    if (k > 0 && mark != '\\' && (explains || closes || (mark == ',' && vocabulary.is(WordClass::denial, word)))) {
      while (!before.empty() && has(kApart, before.back())) before = trimmed(before.substr(0, before.size() - 1));
      rest = before;
      break;
    }
    k = end - 1;
  }
  if (value && rest.ends_with(kArticle)) rest.remove_suffix(kArticle.size());
  return std::string(bare(rest));
}

bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary) noexcept {
  bool words = text.empty();
  for_each_word(text, [&](const std::string& word) {
    words =
        words || (vocabulary.is_word(word) && vocabulary.word(word) == nullptr && vocabulary.unit(word).dimension == 0);
  });
  return !words;
}

namespace {

/// The sentence that a number ends in, from its beginning to `digit` behind the number.
std::string_view sentence_before(std::string_view text, std::size_t digit) noexcept {
  std::size_t begin = digit - 1;
  for (; begin > 0 && text[begin - 1] != '\n' && digit - begin < kMaxSentence_bytes; --begin) {
    const char c = text[begin - 1];
    if ((c == '?' || c == '!') && is_space(text[begin])) break;
    if (c == '.' && stops(text.substr(0, begin + 1), begin - 1)) break;
    std::size_t end = begin;
    if (c == ' ' && text[begin] >= 'A' && text[begin] <= 'Z' &&
        default_vocabulary().is(WordClass::concluding, lower_word(text, end)))
      break;
  }
  return text.substr(begin, digit - begin);
}

/// Where the formula begins that ends a line: behind the last word in it that is no mathematics.
std::size_t formula_begin(std::string_view line, const Vocabulary& vocabulary) noexcept {
  std::size_t first = line.size();
  for (int depth = 0; first > 0;) {
    const char c = line[first - 1];
    depth += c == '}' ? 1 : c == '{' ? -1 : 0;
    if (is_letter(c) && depth <= 0) {
      const std::string_view name = last_word(line.substr(0, first));
      const std::size_t word = first - name.size();
      const bool command = word > 0 && line[word - 1] == '\\', letter = name.size() == 1 && !has(kNoNames, name[0]);
      const Meaning* meaning = vocabulary.word(name);
      const bool symbol = meaning != nullptr && meaning->type != TokenType::separator && meaning->type != TokenType::op;
      if (!command && !letter && !symbol) break;
      first = word;
      continue;
    }
    const std::string_view before = trimmed(line.substr(0, first - 1)), behind = line.substr(first);
    const bool ratio = c == ':' && !before.empty() && is_digit(before.back()) && is_digit(trimmed(behind)[0]);
    const bool tag = c == '>' && !before.empty() && is_letter(before.back());  // <b>2
    const bool listed = c == ',' && behind.size() > 1 && behind[0] == ' ' && !is_digit(behind[1]);
    if (tag || (c == ':' && !ratio) || listed) break;
    --first;
  }
  return first;
}

/// Whether what stands before a formula makes it no answer: a word of the table, an operation, another number.
bool is_refused(std::string_view before, std::string_view formula, const Vocabulary& vocabulary) {
  if (vocabulary.any(WordClass::refusal, before) || formula.empty()) return true;
  if (!before.empty() && has(kOperations, before.back()) && !before.ends_with(kBold)) return true;
  if (formula[0] == '{' || (formula[0] == '(' && formula.find('$') < 3)) return true;  // ($5) is a loss
  for (std::string_view said = before;;) {                                             // over the number 42
    std::size_t at = 0;
    const std::string_view last = last_word(said);
    const std::string word = lower_word(last, at);
    if (vocabulary.is(WordClass::over, word)) return true;
    if (!vocabulary.is(WordClass::leading, word)) break;
    said = trimmed(said.substr(0, said.size() - last.size()));
  }
  const std::string_view joint = last_word(before);
  std::string_view ahead = trimmed(before.substr(0, before.size() - joint.size()));
  while (ahead.ends_with(',')) ahead = trimmed(ahead.substr(0, ahead.size() - 1));
  const bool joined = vocabulary.is(WordClass::joint, joint);
  if (joined && !ahead.empty() && (has(kDigits, ahead.back()) || ahead.back() == '$' || ahead.ends_with(kOne)))
    return true;
  // 2 hours and 30 minutes
  const std::size_t unit =
      std::min(std::size_t(std::ranges::find_if(formula, is_letter) - formula.begin()), formula.size());
  std::size_t unit_end = unit;
  while (unit_end < formula.size() && is_letter(formula[unit_end])) ++unit_end;
  const char dimension = vocabulary.unit(formula.substr(unit, unit_end - unit)).dimension;
  return dimension != 0 && vocabulary.unit(joined ? last_word(ahead) : joint).dimension == dimension &&
         before.find_first_of(kDigits) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary) {
  std::size_t digit = text.size();
  while (digit > 0 && !is_digit(text[digit - 1])) --digit;
  if (digit == 0) return std::nullopt;
  std::string line(sentence_before(text, digit));
  const std::size_t first = formula_begin(line, vocabulary);
  line += sentence(text.substr(digit));
  std::string_view before = trimmed(std::string_view(line).substr(0, first)),
                   formula = trimmed(std::string_view(line).substr(first));
  while (formula.starts_with(',')) formula = trimmed(formula.substr(1));
  const std::string_view behind = formula.substr(std::min(formula.find(kAnd), formula.size()));  // in April and May
  if (behind.size() > kAnd.size() && behind[kAnd.size()] >= 'A' && behind[kAnd.size()] <= 'Z')
    formula.remove_suffix(behind.size());
  for (std::string_view word = last_word(before); vocabulary.is(WordClass::hedge, word); word = last_word(before))
    before = trimmed(before.substr(0, before.size() - word.size()));
  if (is_refused(before, formula, vocabulary)) return std::nullopt;
  return value_of_clause(formula, vocabulary);
}

std::optional<std::string> exclaimed(std::string_view text, std::size_t at, std::string_view answer,
                                     const Vocabulary& vocabulary) {
  const auto is_ornament = [](char c) { return static_cast<unsigned char>(c) >= 0x80 || has(kOrnaments, c); };
  const std::size_t sign = answer.find('!');
  if (sign == std::string_view::npos || !std::ranges::all_of(answer.substr(sign), is_ornament)) return std::nullopt;
  std::string number(answer.substr(0, sign));
  std::erase(number, '*');
  if (number.find_first_not_of(kNumbers) != std::string::npos) return std::nullopt;
  const std::size_t begin = text.substr(0, at).rfind('\n') + 1;
  std::string_view line = text.substr(begin, at - begin);
  while (!line.empty() && (is_ornament(line.back()) || has(kSigns, line.back()))) line.remove_suffix(1);
  if (line.empty() || has(line, '!') || vocabulary.any(WordClass::counting, line)) return std::nullopt;
  const bool said = is_letter(line.back()) || line.back() == ':' || line.back() == '#';
  std::size_t word = 0;
  return said && !vocabulary.is(WordClass::operation, lower_word(last_word(line), word)) ? std::optional(number)
                                                                                         : std::nullopt;
}

}  // namespace qrl::reward::math

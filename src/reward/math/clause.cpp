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

std::string lower_word(std::string_view text, std::size_t& at) {
  std::string word;
  for (; at < text.size() && is_letter(text[at]); ++at) word += base::lower(text[at]);
  return word;
}

bool any_word(std::string_view text, const Vocabulary& vocabulary, WordClass of) {
  for (std::size_t k = 0; k < text.size();) {
    if (text[k] == '\\')
      for (++k; k < text.size() && is_letter(text[k]);) ++k;
    const std::string word = lower_word(text, k);
    if (word.empty()) ++k;
    else if (vocabulary.is(of, word)) return true;
  }
  return false;
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) noexcept {
  return std::any_of(endings.begin(), endings.end(), [text](auto ending) { return text.ends_with(ending); });
}

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) noexcept {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [text](auto beginning) { return text.starts_with(beginning); });
}

/// Mr. Benson, i.e. 42: a full stop that ends no sentence.
bool ends_with_short_form(std::string_view text) noexcept {
  std::size_t begin = text.size();
  while (begin > 0 && (is_letter(text[begin - 1]) || (text[begin - 1] == '.' && begin < text.size()))) --begin;
  const std::string_view word = text.substr(begin);
  constexpr std::string_view kForms[] = {"Mr", "Mrs", "Ms", "Dr", "St", "i.e", "e.g", "approx", "Rs"};
  return std::find(std::begin(kForms), std::end(kForms), word) != std::end(kForms);
}

/// 0.333..., whose dots say that it goes on.
bool ends_with_dotted_decimal(std::string_view text) noexcept {
  if (!text.ends_with("...")) return false;
  const std::size_t point = text.substr(0, text.size() - 3).find_last_not_of("0123456789");
  return point != std::string_view::npos && text[point] == '.' && point + 4 < text.size();
}

}  // namespace

std::size_t find_last(std::string_view text, std::string_view needle) noexcept {
  constexpr int kMaxMisses = 1000;  // a call for each costs more than a look at every byte
  for (int misses = 0; text.size() >= needle.size(); ++misses) {
    const void* at = memrchr(text.data(), needle.front(), text.size() - needle.size() + 1);
    if (at == nullptr) return std::string_view::npos;
    const auto found = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    if (text.substr(found).starts_with(needle)) return found;
    if (misses == kMaxMisses) {
      std::size_t k = found;
      while (k > 0 && (text[k - 1] != needle[0] || text[k] != needle[1] || !text.substr(k - 1).starts_with(needle)))
        --k;
      return k > 0 ? k - 1 : std::string_view::npos;
    }
    text = text.substr(0, found + needle.size() - 1);
  }
  return std::string_view::npos;
}

std::string_view bare(std::string_view text) noexcept {
  constexpr std::string_view kPairs[][2] = {{"$$", "$$"},   {"$", "$"},   {"\\(", "\\)"},  {"\\[", "\\]"},
                                            {"```", "```"}, {"`", "`"},   {"**", "**"},    {"__", "__"},
                                            {"_", "_"},     {"\"", "\""}, {"<b>", "</b>"}, {"<strong>", "</strong>"}};
  constexpr std::string_view kSpaces[] = {"\\,", "\\;", "\\:", "\\!", "\\ "};
  for (std::size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text = trimmed(text);
    for (const std::string_view space : kSpaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size());
      if (text.ends_with(space) && !text.ends_with("\\\\" + std::string(space.substr(1))))
        text.remove_suffix(space.size());
    }
    if (text.ends_with('\\') && !text.ends_with("\\\\")) text.remove_suffix(1);
    for (const auto& [open, close] : kPairs) {
      if (text.size() < open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) continue;
      const std::string_view inside = text.substr(open.size(), text.size() - open.size() - close.size());
      if (inside.find(close) == std::string_view::npos) text = trimmed(inside);
    }
    for (const std::string_view mark : {"**", "__", "_"})  // begun further before
      if (text.ends_with(mark) && text.find(mark) + mark.size() == text.size()) text.remove_suffix(mark.size());
    while ((text.ends_with('.') && !ends_with_dotted_decimal(text)) || text.ends_with(',') || text.ends_with(';'))
      text.remove_suffix(1);
    if (text.starts_with(':')) text.remove_prefix(1);
  }
  return text;
}

std::string_view sentence(std::string_view text) noexcept {
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"\\[", "\\]"}, {"$$", "$$"}}) {
    const std::size_t end = text.starts_with(open) ? text.find(close, 2) : std::string_view::npos;
    if (end != std::string_view::npos) return text.substr(0, end + 2);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool tag = c == '<' && (text.substr(i).starts_with("</") || text.substr(i).starts_with("<|"));
    const std::string_view behind = tag ? trimmed(text.substr(std::min(text.find('>', i), text.size() - 1) + 1)) : "";
    if (c == '\n' || (tag && (behind.empty() || !is_letter(behind[0])))) return text.substr(0, i);
    const bool next = i + 1 == text.size() || is_space(text[i + 1]);
    const bool begins = i + 2 < text.size() && text[i + 2] >= 'A' && text[i + 2] <= 'Z';
    if (!next || (c != '.' && (c != '!' || !begins))) continue;
    const bool pause = i > 0 && text[i - 1] == '.',
               label = i == 1 && text[0] >= 'A' && text[0] <= 'J' && i + 2 < text.size() && !is_letter(text[3]);
    if (!pause && !label && !(c == '.' && ends_with_short_form(text.substr(0, i)))) return text.substr(0, i);
  }
  return text;
}

std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary) {
  std::string text(bare(clause));
  for (std::size_t at = text.find("**"); at != std::string::npos && text.size() < kMaxSentence_bytes;
       at = text.find("**", at)) {
    const bool product = at > 0 && text[at - 1] == ' ' && at + 2 < text.size() && text[at + 2] == ' ';
    product ? void(++at) : void(text.erase(at, 2));
  }
  std::string_view rest = bare(text);
  for (;;) {  // leading words
    std::size_t end = 0;
    const std::string word = lower_word(rest, end);
    const bool whole = end == rest.size() || rest[end] == ' ' || rest[end] == ',' || rest[end] == ':';
    if (word.empty() || !whole || !vocabulary.is(WordClass::leading, word) || end == rest.size() ||
        (word == "a" && rest[0] == 'A'))
      break;
    if ((word == "a" || word == "an" || word == "the") && rest.find_first_of("0123456789$\\") == std::string_view::npos)
      break;
    rest = trimmed(rest.substr(end));
    while (rest.starts_with(',') || rest.starts_with(':')) rest = trimmed(rest.substr(1));
  }
  bool value = false;  // something with a digit or a formula came before
  int depth = 0;
  for (std::size_t k = 0; k < rest.size(); ++k) {
    const char c = rest[k];
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == '$' && depth == 0) {
      const std::size_t close = rest.find('$', k + 1);
      value = true;
      if (close != std::string_view::npos) k = close;
      continue;
    }
    const bool begins = is_letter(c) && (k == 0 || !is_letter(rest[k - 1])) && (k == 0 || rest[k - 1] != '\\');
    if (depth == 0 && begins && k > 0) {
      std::size_t end = k;
      const std::string word = lower_word(rest, end);
      std::string_view before = trimmed(rest.substr(0, k));
      const bool explains = ends_with_any(before, {"(", "[", ";", ","}) && word.size() > 1 && value &&
                            !vocabulary.is(WordClass::changing, word) &&
                            vocabulary.word(rest.substr(k, end - k)) == nullptr;
      const bool closes = vocabulary.is(WordClass::closing, word) ||
                          (word == "and" && end < rest.size() && is_letter(rest[std::min(end + 1, rest.size() - 1)]) &&
                           vocabulary.is(WordClass::closing, rest.substr(end + 1, rest.find(' ', end + 1) - end - 1)));
      const bool much = word == "as" && before.ends_with("times"),
                 denied = word == "not" && before.ends_with(',') && value;
      const bool bracketed = ends_with_any(before, {"(", "["}) &&
                             any_word(rest.substr(k, rest.find_first_of(")]", k) - k), vocabulary, WordClass::changing);
      if (((closes && word.size() > 1 && !much) || explains || denied) && !bracketed) {
        while (ends_with_any(before, {"(", "[", ";", ","})) before = trimmed(before.substr(0, before.size() - 1));
        rest = before;
        break;
      }
      k = end - 1;
      continue;
    }
    value = value || is_digit(c) || c == '\\' || c == '$';
  }
  if (value && rest.size() > 2 && rest.substr(0, rest.size()).find(" a") == rest.size() - 2) rest.remove_suffix(2);
  return std::string(bare(rest));
}

bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary) noexcept {
  for (std::size_t k = 0; k < text.size();) {
    if (text[k] == '\\') {
      for (++k; k < text.size() && is_letter(text[k]);) ++k;
      continue;
    }
    const std::size_t begin = k;
    while (k < text.size() && is_letter(text[k])) ++k;
    const std::string_view word = text.substr(begin, k - begin);
    const bool in_text = begin >= 1 && text.rfind("\\text", begin) != std::string_view::npos &&
                         text.find('}', text.rfind("\\text", begin)) >= begin;
    if (word.size() > 1 && !in_text && vocabulary.word(word) == nullptr && vocabulary.unit(word).dimension == 0 &&
        word.size() > 2)
      return false;
    if (word.size() == 2 && !in_text && vocabulary.is_word(word) && vocabulary.word(word) == nullptr &&
        vocabulary.unit(word).dimension == 0)
      return false;
    k += word.empty() ? 1 : 0;
  }
  return !text.empty();
}

namespace {

/// The sentence that a number ends in, from its beginning to `digit` behind the number.
std::string_view sentence_before(std::string_view text, std::size_t digit) noexcept {
  std::size_t begin = digit - 1;
  for (; begin > 0 && digit - begin < kMaxSentence_bytes; --begin) {
    const char c = text[begin - 1];
    const bool stop =
        (c == '.' || c == '?' || c == '!') && is_space(text[begin]) && !ends_with_short_form(text.substr(0, begin - 1));
    const bool concludes = c == ' ' && begins_with_any(text.substr(begin), {"Therefore", "Thus", "Hence", "So "});
    if (c == '\n' || stop || concludes) break;
  }
  return text.substr(begin, digit - begin);
}

/// Where the formula begins that ends at `first` of a line: behind the last word before it that is no mathematics.
std::size_t formula_begin(std::string_view line, std::size_t first, const Vocabulary& vocabulary) noexcept {
  int depth = 0;
  while (first > 0) {
    const char c = line[first - 1];
    const std::string_view behind = line.substr(first);
    depth += c == '}' ? 1 : c == '{' ? -1 : 0;
    if (is_letter(c) && depth <= 0) {
      std::size_t word = first;
      while (word > 0 && is_letter(line[word - 1])) --word;
      const std::string_view name = line.substr(word, first - word);
      const bool command = word > 0 && line[word - 1] == '\\';
      const Meaning* meaning = command ? nullptr : vocabulary.word(name);
      const bool formula =
          command || (name.size() == 1 && name != "a" && name != "A" && name != "I") ||
          (meaning != nullptr && meaning->type != TokenType::separator && meaning->type != TokenType::op);
      if (!formula) break;
      first = word;
      continue;
    }
    const std::size_t number = first > 2 && line[first - 2] == ' ' ? first - 3 : first > 1 ? first - 2 : first - 1;
    const bool ratio = c == ':' && is_digit(line[number]) &&
                       (number + 3 == first || (!behind.empty() && is_digit(behind[0])));  // 3:4, 3 : 4
    const bool tag = c == '>' && first > 2 && is_letter(line[first - 2]) &&
                     (line[first - 3] == '<' || line.substr(0, first).rfind("<s") != std::string_view::npos);  // <b>2
    const bool listed = c == ',' && behind.size() > 1 && behind[0] == ' ';
    if (tag || (c == ':' && !ratio) || (listed && !is_digit(behind[1]))) break;
    --first;
  }
  return first;
}

/// Whether what stands before a formula makes it no answer: a word of the table, an operation, another number.
bool is_refused(std::string_view before, std::string_view formula, const Vocabulary& vocabulary) {
  if (any_word(before, vocabulary, WordClass::refusal)) return true;
  for (std::string_view said = before; !said.empty();) {  // over the number 42
    const std::size_t space = said.find_last_of(' ');
    const std::string_view last = said.substr(space == std::string_view::npos ? 0 : space + 1);
    if (base::begins_with(last, "over") && last.size() == 4) return true;
    if (space == std::string_view::npos || !vocabulary.is(WordClass::leading, last)) break;
    said = trimmed(said.substr(0, space));
  }
  std::size_t word = before.size();
  while (word > 0 && is_letter(before[word - 1])) --word;
  const std::string_view joint = before.substr(word);
  std::string_view ahead = trimmed(before.substr(0, word));
  while (ahead.ends_with(',')) ahead = trimmed(ahead.substr(0, ahead.size() - 1));
  const bool number_ahead =
      !ahead.empty() && (is_digit(ahead.back()) || ahead.back() == '$' || ahead.ends_with(" one"));
  const bool two = number_ahead && (joint == "in" || joint == "of" || joint == "or" || joint == "and" || joint == "to");
  std::size_t unit = 0;
  while (unit < formula.size() && !is_letter(formula[unit])) ++unit;
  std::size_t unit_end = unit;
  while (unit_end < formula.size() && is_letter(formula[unit_end])) ++unit_end;
  const char dimension = vocabulary.unit(formula.substr(unit, unit_end - unit)).dimension;
  const std::string_view other_unit = joint == "and" ? ahead.substr(ahead.find_last_of(' ') + 1) : joint;
  const bool amounts = dimension != 0 && vocabulary.unit(other_unit).dimension == dimension &&
                       before.find_first_of("0123456789") != std::string_view::npos;
  const bool operand = ends_with_any(before, {"+", "/", "^", "_", "<", ">", "\\", "-"}) && !before.ends_with("**");
  const bool bracketed =
      formula.starts_with('{') || formula.starts_with("($") || formula.starts_with("(\\$");  // a loss
  return two || amounts || operand || bracketed || formula.empty();
}

}  // namespace

std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary) {
  std::size_t digit = text.size();
  while (digit > 0 && !is_digit(text[digit - 1])) --digit;
  if (digit == 0) return std::nullopt;
  std::string line(sentence_before(text, digit));
  const std::size_t first = formula_begin(line, line.size(), vocabulary);
  line += sentence(text.substr(digit));
  if (line.size() > 2 * kMaxSentence_bytes) return std::nullopt;
  std::string_view before = trimmed(std::string_view(line).substr(0, first)),
                   formula = trimmed(std::string_view(line).substr(first));
  const bool item = first == 0 && (formula.starts_with("- ") || formula.starts_with("– "));
  if (item) formula = trimmed(formula.substr(formula.find(' ')));
  if (formula.starts_with("'s ")) formula.remove_prefix(3);
  while (formula.starts_with(',')) formula = trimmed(formula.substr(1));
  if (const std::size_t joint = formula.find(" and ");
      joint + 5 < formula.size() && formula[joint + 5] >= 'A' && formula[joint + 5] <= 'Z')
    formula = formula.substr(0, joint);
  for (std::size_t space = before.find_last_of(' '); space != std::string_view::npos;
       space = before.find_last_of(' ')) {
    if (!vocabulary.is(WordClass::hedge, before.substr(space + 1))) break;
    before = trimmed(before.substr(0, space));
  }
  if (is_refused(before, formula, vocabulary)) return std::nullopt;
  return value_of_clause(formula, vocabulary);
}

std::optional<std::string> exclaimed(std::string_view text, std::size_t at, std::string_view answer) {
  constexpr std::string_view kOrnaments = " *_\"!\r";
  while (!answer.empty() && std::string_view("*_").find(answer.front()) != std::string_view::npos)
    answer.remove_prefix(1), ++at;
  const std::size_t sign = answer.find('!');
  if (sign == std::string_view::npos || sign == 0 || sign > 64 || at > text.size()) return std::nullopt;
  const auto is_ornament = [&](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || kOrnaments.find(c) != std::string_view::npos;
  };
  const std::string_view number = answer.substr(0, sign), rest = answer.substr(sign);
  if (!std::all_of(rest.begin(), rest.end(), is_ornament) ||
      number.find_first_not_of("0123456789.,/:-$ to*") != std::string_view::npos)
    return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] != '\n' && at - begin < kMaxSentence_bytes) --begin;
  std::string line(text.substr(begin, at - begin));
  std::transform(line.begin(), line.end(), line.begin(), base::lower);
  while (!line.empty() &&
         (kOrnaments.find(line.back()) != std::string_view::npos || line.back() == '-' || line.back() == '$'))
    line.pop_back();
  constexpr std::string_view kFactorials[] = {"factorial", "permut", "arrang", " ways", " order", "!"};
  if (std::any_of(std::begin(kFactorials), std::end(kFactorials),
                  [&](auto word) { return line.find(word) != std::string::npos; }))
    return std::nullopt;
  const bool operation = ends_with_any(line, {" of", " by", " times", " plus", " minus", " over", " and", " or"});
  const bool said = !line.empty() && (is_letter(line.back()) || line.back() == ':' || line.back() == '#');
  std::string plain(number);
  std::erase(plain, '*');
  return said && !operation ? std::optional(plain) : std::nullopt;
}

}  // namespace qrl::reward::math

#include "reward/math/numerals.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/ascii.h"
#include "reward/math/prose.h"

namespace qrl::reward::math {

namespace {

using base::begins_with;
using base::is_letter;
using base::lower;

constexpr std::string_view kSmall[] = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                       "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                       "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::string_view kTens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};

/// The word at the start of a text, whole and in any case, is `word`.
bool is_word(std::string_view text, std::string_view word) noexcept {
  if (text.size() < word.size() || (text.size() > word.size() && is_letter(text[word.size()]))) return false;
  for (std::size_t k = 0; k < word.size(); ++k) {
    if ((text[k] | 32) != word[k]) return false;
  }
  return true;
}

struct Part {
  std::string_view word;
  std::int64_t denominator;
};
constexpr Part kParts[] = {{"half", 2},       {"third", 3},       {"quarter", 4},      {"fourth", 4},
                           {"fifth", 5},      {"sixth", 6},       {"seventh", 7},      {"eighth", 8},
                           {"ninth", 9},      {"tenth", 10},      {"twelfth", 12},     {"sixteenth", 16},
                           {"twentieth", 20}, {"hundredth", 100}, {"thousandth", 1000}};
constexpr std::int64_t kMostParts = 19;  ///< twenty-third is no fraction

struct Reader {
  std::string_view text;
  std::size_t at = 0;

  /// Behind the separator that may stand before a further word; false where none follows.
  bool behind_separator(std::size_t& next) const noexcept {
    next = at;
    if (next < text.size() && (text[next] == '-' || text[next] == ' ')) ++next;
    return next > at && next < text.size() && is_letter(text[next]);
  }

  bool take(std::size_t from, std::string_view word) noexcept {
    if (!is_word(text.substr(from), word)) return false;
    at = from + word.size();
    return true;
  }

  /// 0 to 99; −1 where the words are none.
  int below_hundred(std::size_t from) noexcept {
    // What no such word begins with, most words do.
    if (from >= text.size() || std::string_view("efnostz").find(lower(text[from])) == std::string_view::npos) return -1;
    for (std::size_t k = 0; k < std::size(kSmall); ++k) {
      if (take(from, kSmall[k])) return static_cast<int>(k);
    }
    for (std::size_t k = 0; k < std::size(kTens); ++k) {
      if (!take(from, kTens[k])) continue;
      const int tens = 20 + 10 * static_cast<int>(k);
      std::size_t next = 0;
      if (!behind_separator(next)) return tens;
      for (std::size_t unit = 1; unit < 10; ++unit) {
        if (take(next, kSmall[unit])) return tens + static_cast<int>(unit);
      }
      return tens;
    }
    return -1;
  }

  /// 0 to 999; −1 where the words are none.
  int below_thousand(std::size_t from) noexcept {
    int number = below_hundred(from);
    std::size_t next = 0;
    if (number < 1 || number > 9 || !behind_separator(next) || !take(next, "hundred")) return number;
    number *= 100;
    const std::size_t end = at;
    if (!behind_separator(next)) return number;
    const bool joined = take(next, "and");
    if (joined && !behind_separator(next)) return at = end, number;
    const int rest = below_hundred(next);
    if (rest < 1) return at = end, number;
    return number + rest;
  }

  /// The denominator of "third" or, in the plural, "thirds"; 0 where there is none.
  std::int64_t denominator(std::size_t from, bool plural) noexcept {
    if (plural && take(from, "halves")) return 2;
    for (const Part& part : kParts) {
      const std::size_t end = from + part.word.size();
      if (!plural && take(from, part.word)) return part.denominator;
      const bool ends = plural && end < text.size() && lower(text[end]) == 's' &&
                        (end + 1 == text.size() || !is_letter(text[end + 1]));
      if (!ends || part.denominator == 2 || !begins_with(text.substr(from), part.word)) continue;
      at = end + 1;
      return part.denominator;
    }
    return 0;
  }

  /// The denominator behind so many parts: of two thirds.
  std::int64_t denominator_behind(std::int64_t above) noexcept {
    std::size_t next = 0;
    if (above < 1 || above > kMostParts || !behind_separator(next)) return 0;
    return denominator(next, above > 1);
  }

  /// "half", "a half" or "a third", with nothing behind it; 0 where there is none.
  std::int64_t denominator_alone() noexcept {
    const std::size_t article = begins_with(text, "a ") ? 2 : begins_with(text, "an ") ? 3 : 0;
    if (article == 0 && (text.empty() || lower(text[0]) != 'h')) return 0;
    const std::int64_t below = article > 0 ? denominator(article, false) : take(0, "half") ? 2 : 0;
    const bool ends = text.find_first_not_of(" .$", at) >= std::min(text.find('}', at), text.size());
    return ends ? below : 0;
  }

  /// "and a half", "and two thirds" behind a whole number, as a fraction with it; nothing where there is none.
  std::optional<Numeral> mixed(std::int64_t whole) noexcept {
    std::size_t next = 0;
    if (whole < 1 || !behind_separator(next) || !take(next, "and") || !behind_separator(next)) return std::nullopt;
    const int above = take(next, "a") ? 1 : below_hundred(next);
    const std::int64_t below = denominator_behind(above);
    return below > above ? std::optional(Numeral{whole * below + above, below, at}) : std::nullopt;
  }
};

}  // namespace

std::optional<Numeral> numeral_at(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 3> kPowers = {"billion", "million", "thousand"};
  constexpr std::array<std::int64_t, 3> kValues = {1'000'000'000, 1'000'000, 1000};
  Reader reader{text};
  if (const std::int64_t below = reader.denominator_alone(); below > 0) return Numeral{1, below, reader.at};
  std::int64_t total = 0;
  int part = reader.below_thousand(0);
  if (part < 0) return std::nullopt;
  for (std::size_t k = 0; k < kPowers.size() && part > 0; ++k) {
    std::size_t next = 0;
    if (!reader.behind_separator(next) || !reader.take(next, kPowers[k])) continue;
    total += part * kValues[k];
    const std::size_t end = reader.at;
    part = reader.behind_separator(next) ? reader.below_thousand(next) : 0;
    if (part < 1) reader.at = end, part = 0;
  }
  const std::int64_t number = total + part;
  const std::size_t end = reader.at;
  Numeral read{number, 1, end};
  if (const std::int64_t below = reader.denominator_behind(number); below > 0) {
    read = {number, below, reader.at};
  } else if (const auto mixed = Reader{text, end}.mixed(number)) {
    read = *mixed;
  }
  Reader behind{text, read.size};
  std::size_t next = 0;
  if (!behind.behind_separator(next)) return read;
  // "one of", "two third", "one half-life"
  const bool other =
      behind.take(next, "of") || behind.denominator(next, false) > 0 || behind.denominator(next, true) > 0;
  const bool compound = read.denominator > 1 && text[read.size] == '-';
  return other || compound ? std::nullopt : std::optional(read);
}

bool begins_with_minus(std::string_view text) noexcept {
  const std::string_view behind = behind_minus(text);
  return !behind.empty() && (base::is_digit(behind.front()) || numeral_at(behind));
}

bool is_bracketed_numeral(std::string_view text) noexcept {
  return text.starts_with('(') && text.ends_with(')') && numeral_at(text.substr(1));
}

}  // namespace qrl::reward::math

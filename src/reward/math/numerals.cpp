#include "reward/math/numerals.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

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
};

}  // namespace

std::optional<Numeral> numeral_at(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 3> kPowers = {"billion", "million", "thousand"};
  constexpr std::array<std::int64_t, 3> kValues = {1'000'000'000, 1'000'000, 1000};
  Reader reader{text};
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
  constexpr std::string_view kOther[] = {"of",     "half",    "halves", "third",  "thirds", "quarter", "quarters",
                                         "fourth", "fourths", "fifth",  "fifths", "tenth",  "tenths"};
  const std::string_view behind = text.substr(std::min(reader.at + 1, text.size()));
  if (std::any_of(std::begin(kOther), std::end(kOther), [behind](auto word) { return is_word(behind, word); })) {
    return std::nullopt;
  }
  return Numeral{total + part, reader.at};
}

}  // namespace qrl::reward::math

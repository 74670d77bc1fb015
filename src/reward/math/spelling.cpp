#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

namespace {

struct Spelling {
  UDecompositionType type;
  std::string_view before, behind;
};
constexpr Spelling kForms[] = {{U_DT_SUPER, "^{", "}"}, {U_DT_SUB, "_{", "}"}, {U_DT_FRACTION, "\\frac{", "}"}};
constexpr UChar kFractionSlash = 0x2044;

/// Passes each character and its bytes to `take`. Invalid UTF-8 gives a negative character.
template <class Take>
void for_each_character(std::string_view text, const Take& take) {
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t begin = 0, end = 0; end < size; begin = end) {
    UChar32 c = 0;
    U8_NEXT(text.data(), end, size, c);
    take(c, text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
}

std::string_view written(std::string_view bytes) {
  static const auto table = [] {
    std::unordered_map<std::string_view, std::string_view> all;
    for (const auto& row : characters())
      for_each_character(row.first, [&](auto, std::string_view one) { all.emplace(one, row.second); });
    return all;
  }();
  const auto found = table.find(bytes);
  return found == table.end() ? bytes : found->second;
}

/// Returns the number of a Roman or circled digit, else the NFKC form.
std::string shown(UChar32 c, int type) {
  const bool roman = c >= 0x2160 && c <= 0x2188, filled_circle = c >= 0x2776 && c <= 0x2793;
  const double number = type == U_DT_CIRCLE || roman || filled_circle ? u_getNumericValue(c) : -1;
  if (number >= 0) return std::to_string(static_cast<long>(number));
  UErrorCode error = U_ZERO_ERROR;
  std::string made, out;
  icu::Normalizer2::getNFKCInstance(error)->normalize(icu::UnicodeString(c), error).toUTF8String(made);
  for_each_character(
      made, [&out](UChar32 each, std::string_view bytes) { out += each == kFractionSlash ? "}{" : written(bytes); });
  return out;
}

}  // namespace

std::string normalized(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  const Spelling* last = nullptr;  // previous character's form: 10⁻⁵ gets a single exponent
  for_each_character(text, [&](UChar32 c, std::string_view bytes) {
    const std::string_view ascii = c < 0x80 ? bytes : written(bytes);
    const Spelling* form = std::end(kForms);
    if (c < 0x80 || ascii != bytes) {
      out += ascii;
    } else {
      const int type = u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE);
      form = std::ranges::find(kForms, type, [](const Spelling& f) { return static_cast<int>(f.type); });
      if (form == std::end(kForms)) out += shown(c, type);
      else if (form == last && type != U_DT_FRACTION) out.insert(out.size() - 1, shown(c, type));
      else out.append(form->before).append(shown(c, type)).append(form->behind);
    }
    last = form;
  });
  return out;
}

// ---- numbers

namespace {

std::size_t num_digits(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, base::is_digit) - text.begin());
}

void move_digits(std::string_view& from, std::string& to) {
  const std::size_t size = num_digits(from);
  to += from.substr(0, size);
  from.remove_prefix(size);
}

/// Moves repeating digits into parentheses: 0.1\overline{6} becomes "0.1(6)".
void move_period(std::string_view& from, std::string& digits, const Vocabulary& vocabulary) {
  constexpr std::size_t kMaxPeriod = 15;
  const bool whole = digits.find('.') == std::string::npos;
  std::string_view period = from.substr(from.empty() || !whole ? 0 : 1);
  if (!from.starts_with(whole ? '.' : '\\') || !vocabulary.take(WordClass::period, period)) return;
  const std::size_t size = num_digits(period);
  if (size == 0 || size > kMaxPeriod || size == period.size() || !has("})", period[size])) return;
  digits += (whole ? ".(" : "(") + std::string(period.substr(0, size)) + ')';
  from = period.substr(size + 1);
}

/// Consumes dots after a decimal: 0.1666... becomes "0.1(6)". A decimal without repeating digits stays unchanged.
void move_dots(std::string_view& from, std::string& digits, const Vocabulary& vocabulary) {
  const std::size_t point = digits.find('.');
  if (point == std::string::npos || !vocabulary.take(WordClass::dots, from)) return;
  for (const std::size_t period : {1, 2, 3, 6}) {
    const std::size_t size = period * (period == 1 ? 3 : 2);
    if (digits.size() < point + 1 + size) continue;
    const std::string_view tail = std::string_view(digits).substr(digits.size() - size);
    if (tail.substr(period) != tail.substr(0, size - period)) continue;
    digits.insert(digits.size() - period, "(") += ')';
    return;
  }
}

/// Reads number words, with at most one space or hyphen before each.
struct NumberWords {
  std::string_view text;
  const Vocabulary& vocabulary;
  std::size_t at = 0, end = 0;  ///< end of the consumed words; end of the next word
  Meaning next = {};

  void look(std::size_t from) {
    at = from;
    const std::size_t begin = at + (at > 0 && at < text.size() && has(" -", text[at]) ? 1 : 0);
    const std::string_view letters = letters_of(text.substr(begin));
    const Meaning* number = vocabulary.find(WordClass::number, in_lower_case(letters));
    next = number == nullptr ? Meaning{} : *number;
    end = begin + letters.size();
  }
  bool take(char kind) {
    const bool taken = next.code == kind;
    if (taken) look(end);
    return taken;
  }
  /// Consumes an integer in words; returns −1 if none is next.
  std::int64_t whole() {
    constexpr std::int64_t kHundred = 100, kAny = 1'000'000'000'000;
    std::int64_t total = 0, part = -1, room = kAny;
    for (;; look(end)) {
      const std::size_t before = at;
      if (room == kHundred) take('&');
      if (next.code == 'n' && (part < 0 || next.value < room)) {
        part = std::max<std::int64_t>(part, 0) + next.value;
        room = next.value < 20 ? 1 : 10;
      } else if (next.code == 'h' && part > 0 && part < 10) {
        part *= room = kHundred;
      } else if (next.code == 'p' && part > 0) {
        total += std::exchange(part, 0) * next.value;
        room = 1000;
      } else {
        look(before);
        return part < 0 ? -1 : total + part;
      }
    }
  }
  /// Consumes a fraction's denominator ("thirds" after "two") and returns it (3). Returns 0 if none is next. `above`:
  /// the numerator.
  std::int64_t parts(std::int64_t above) {
    constexpr std::int64_t kMost = 19;  // twenty-third is no fraction
    const auto below = static_cast<std::int64_t>(next.value);
    return above > 0 && above <= kMost && take(above > 1 ? 's' : '/') ? below : 0;
  }
};

}  // namespace

WrittenNumber scan_number(std::string_view text, std::size_t begin, Comma comma, const Vocabulary& vocabulary) {
  std::string_view rest = text.substr(begin);
  WrittenNumber number;
  std::string& digits = number.digits;
  move_digits(rest, digits);
  number.ambiguous_comma = rest.starts_with(',') && num_digits(rest.substr(1)) > 0;
  const std::size_t lead = digits.size();
  while (lead >= 1 && lead <= 3) {
    std::string_view group = rest;
    if (!vocabulary.take(WordClass::thousands, group) || num_digits(group) != 3) break;
    const bool by_comma = rest[0] == ',' && rest.size() - group.size() == 1;
    if (by_comma && comma != Comma::thousands) break;
    number.thousands = by_comma;
    rest = group;
    move_digits(rest, digits);
  }
  const char point = comma == Comma::decimal && number.ambiguous_comma ? ',' : '.';
  if (rest.starts_with(point) && num_digits(rest.substr(1)) > 0) {
    rest.remove_prefix(1);
    digits += '.';
    move_digits(rest, digits);
  }
  move_dots(rest, digits, vocabulary);
  move_period(rest, digits, vocabulary);
  // Reads exponents such as 1e6 and 1.5E-3, not Euler's number in 3e - 5 or e^2-2e-1.
  const bool sign = rest.size() > 1 && has("+-", rest[1]);
  std::string_view exponent = rest.substr(std::min<std::size_t>(sign ? 2 : 1, rest.size()));
  if (base::begins_with(rest, "e") && num_digits(exponent) > 0 &&
      !(sign && text.find("e^") != std::string_view::npos)) {
    digits += rest[1] == '-' ? "e-" : "e";
    move_digits(exponent, digits);
    rest = exponent;
  }
  number.end = text.size() - rest.size();
  return number;
}

std::optional<WrittenNumber> numeral_at(std::string_view text, std::size_t begin, const Vocabulary& vocabulary) {
  NumberWords words{text.substr(begin), vocabulary};
  words.look(0);
  const bool part = words.take('a') || words.next.code == '/';  // half, a third
  std::int64_t value = part ? 1 : words.whole(), below = words.parts(value);
  const std::size_t end = words.at;
  if (value < 0 || (part && below == 0)) return std::nullopt;
  if (value > 0 && below == 0 && words.take('&')) {  // two and a half
    const std::int64_t above = words.take('a') ? 1 : words.whole(), under = words.parts(above);
    if (under > above) value = value * (below = under) + above;
    else words.look(end);
  }
  if (has("o/sn", words.next.code)) return std::nullopt;  // rejects "one of", "two third", "forty two three"
  return WrittenNumber{std::to_string(value) + (below > 0 ? '/' + std::to_string(below) : ""), begin + words.at};
}

}  // namespace qrl::reward::math

#include "reward/math/numerals.h"

#include <algorithm>
#include <iterator>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;

constexpr std::int64_t kLargest = 1'000'000'000'000, kMostParts = 19;  // twenty-third is no fraction

class Scanner {
 public:
  Scanner(std::vector<char>& source, std::size_t begin, int comma, const Vocabulary& vocabulary) noexcept
      : digits_(source.data() + begin),
        text_(source.data(), source.size()),
        vocabulary_(vocabulary),
        comma_(comma),
        at_(begin) {}

  WrittenNumber run() {
    const std::size_t begin = at_;
    take_digits();
    const std::size_t lead = kept_;
    WrittenNumber number;
    bool commas_alone = true;
    for (std::size_t size = separator_at(at_); lead >= 1 && lead <= 3 && size != 0; size = separator_at(at_)) {
      const bool plain_comma = size == 1 && peek() == ',';
      if (!three_digits(at_ + size) || (plain_comma && text_[begin] == '0')) break;
      number.ambiguous_comma = number.ambiguous_comma || plain_comma;
      if (plain_comma && comma_ != 0) break;
      commas_alone = commas_alone && plain_comma;
      at_ += size;
      take_digits();
    }
    if (commas_alone && kept_ > lead) number.first_group = lead;
    if (peek() == ',' && is_digit(peek(1)) && kept_ == lead) {
      number.ambiguous_comma = true;
      if (comma_ == 2) take_places();
    } else if (peek() == '.' && is_digit(peek(1))) {
      take_places();
    }
    if (!read_dots()) read_repeating();
    read_exponent();
    number.end = at_;
    number.size = kept_;
    return number;
  }

 private:
  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void keep(char c) noexcept { digits_[kept_++] = c; }
  void take_digits() noexcept {
    for (; is_digit(peek()); ++at_) keep(peek());
  }
  void take_places() noexcept {
    keep('.');
    ++at_;
    take_digits();
  }

  /// The size of what may separate thousands: a comma, a space, both.
  std::size_t separator_at(std::size_t i) const noexcept {
    std::string_view rest = text_.substr(i);
    vocabulary_.take(WordClass::thousands, rest);
    return text_.size() - i - rest.size();
  }
  bool three_digits(std::size_t i) const noexcept {
    const std::string_view rest = text_.substr(i);
    return std::min(rest.find_first_not_of("0123456789"), rest.size()) == 3;
  }

  /// The digits that repeat, in parentheses: 0.1\overline{6} is "0.1(6)".
  void read_repeating() noexcept {
    const bool has_point = std::string_view(digits_, kept_).find('.') != std::string_view::npos;
    const bool point = !has_point && peek() == '.';
    if (!has_point && !point) return;
    std::string_view rest = text_.substr(at_ + (point ? 1 : 0));
    const bool bracket = rest.starts_with('(');
    if (!vocabulary_.take(WordClass::period, rest) || (bracket && !point)) return;
    const std::size_t size = rest.find_first_not_of("0123456789");
    if (size == 0 || size > 15 || size == std::string_view::npos || (rest[size] != '}' && rest[size] != ')')) return;
    at_ = static_cast<std::size_t>(rest.data() - text_.data()) + size + 1;
    if (point) keep('.');
    keep('(');
    for (const char c : rest.substr(0, size)) keep(c);
    keep(')');
  }

  /// Dots behind a decimal: 0.1666... is "0.1(6)" where its digits show their period; others say nothing.
  bool read_dots() noexcept {
    std::string_view rest = text_.substr(at_);
    const std::string_view digits(digits_, kept_);
    const std::size_t point = digits.find('.');
    if (point == std::string_view::npos || !vocabulary_.take(WordClass::dots, rest)) return false;
    at_ = text_.size() - rest.size();
    for (const std::size_t period : {1, 2, 3, 6}) {
      const std::size_t size = period * (period == 1 ? 3 : 2);
      if (kept_ < point + 1 + size) continue;
      const std::string_view tail = digits.substr(kept_ - size);
      if (tail.substr(period) != tail.substr(0, size - period)) continue;
      std::copy_backward(digits_ + kept_ - period, digits_ + kept_, digits_ + kept_ + 1);
      digits_[kept_++ - period] = '(';
      keep(')');
      break;
    }
    return true;
  }

  /// 1e6, 1.5E-3. Euler's number stands apart, 3e - 5, or in a formula that has powers of it: e^2-2e-1.
  void read_exponent() noexcept {
    if (peek() != 'e' && peek() != 'E') return;
    const bool sign = peek(1) == '-' || peek(1) == '+';
    if (!is_digit(peek(sign ? 2 : 1)) || (sign && text_.find("e^") != std::string_view::npos)) return;
    keep('e');
    ++at_;
    if (peek() == '-') keep('-');
    at_ += sign ? 1 : 0;
    take_digits();
  }

  char* digits_;
  std::string_view text_;
  const Vocabulary& vocabulary_;
  int comma_;
  std::size_t at_, kept_ = 0;
};

/// Reads words; each step stands behind the words that it took.
struct NumberWords {
  std::string_view text;
  const Vocabulary& vocabulary;
  std::size_t at = 0;

  /// The next word, behind at most one space or hyphen; `end`: behind it. A plural is one of parts.
  Meaning next(std::size_t& end) const {
    end = at + (at > 0 && at < text.size() && (text[at] == ' ' || text[at] == '-') ? 1 : 0);
    const std::string word = in_lower_case(letters_of(text.substr(end)));
    end += word.size();
    const Meaning* number = vocabulary.find(WordClass::number, word);
    if (number != nullptr || !word.ends_with('s')) return number == nullptr ? Meaning{} : *number;
    number = vocabulary.find(WordClass::number, std::string_view(word).substr(0, word.size() - 1));
    return number == nullptr || number->code != '/' ? Meaning{} : *number;
  }
  bool take(char kind) {
    std::size_t end = 0;
    if (next(end).code != kind) return false;
    at = end;
    return true;
  }

  std::int64_t whole() {
    std::int64_t total = 0, part = -1, room = kLargest;
    for (std::size_t before = at;;) {
      std::size_t end = 0;
      const Meaning word = next(end);
      const bool hundreds = word.code == 'h' && room == 1 && part > 0 && part < 10;
      if (word.code == 'n' && (part < 0 || (word.value > 0 && word.value < room))) {
        part = std::max<std::int64_t>(part, 0) + word.value;
        room = word.value < 20 ? 1 : 10;
      } else if (hundreds || (word.code == 'p' && part > 0 && total < kLargest / word.value)) {
        (hundreds ? part : total) += part * (word.value - (hundreds ? 1 : 0));
        if (!hundreds) part = 0;
        room = hundreds ? 100 : 1000;
      } else if (word.code != '&' || room != 100) {
        return at = before, part < 0 ? -1 : total + part;
      }
      at = end;
      if (word.code != '&') before = at;
    }
  }
  /// The denominator of so many parts: 3 of two thirds; 0 where there is none.
  std::int64_t parts(std::int64_t above) {
    std::size_t end = 0;
    const Meaning word = next(end);
    if (word.code != '/' || above < 1 || above > kMostParts || (above > 1) != (text[end - 1] == 's')) return 0;
    at = end;
    return word.value;
  }
};

}  // namespace

WrittenNumber scan_number(std::vector<char>& source, std::size_t begin, int comma, const Vocabulary& vocabulary) {
  return Scanner(source, begin, comma, vocabulary).run();
}

std::optional<Numeral> numeral_at(std::string_view text, const Vocabulary& vocabulary) {
  NumberWords words{text, vocabulary};
  std::size_t end = 0;
  const bool article = words.take('a');
  if (article || words.next(end).code == '/') {  // half, a third
    if (article && words.at < text.size() && text[words.at] != ' ') return std::nullopt;
    const std::int64_t below = words.parts(1);
    const bool ends = text.find_first_not_of(" .$", words.at) >= std::min(text.find('}', words.at), text.size());
    return below > 0 && ends ? std::optional(Numeral{1, below, words.at}) : std::nullopt;
  }
  Numeral read{words.whole(), 1, words.at};
  if (read.value < 0) return std::nullopt;
  if (const std::int64_t below = words.parts(read.value); below > 0) {
    read.denominator = below;
  } else if (read.value > 0 && words.take('&')) {  // two and a half
    const std::int64_t above = words.take('a') ? 1 : words.whole();
    if (const std::int64_t under = words.parts(above); under > above)
      read = {read.value * under + above, under, words.at};
    else words.at = read.size;
  }
  read.size = words.at;
  // "one of", "two third", "one half-life", "forty two three"
  const char behind = words.next(end).code;
  const bool compound = read.denominator > 1 && read.size < text.size() && text[read.size] == '-';
  return behind == 'o' || behind == '/' || behind == 'n' || compound ? std::nullopt : std::optional(read);
}

}  // namespace qrl::reward::math

#include "reward/math/numerals.h"

#include <algorithm>
#include <iterator>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;

class Scanner {
 public:
  Scanner(std::vector<char>& source, std::size_t begin, int comma) noexcept
      : digits_(source.data() + begin), text_(source.data(), source.size()), comma_(comma), at_(begin) {}

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

  /// The size of what may separate thousands: a comma, spaces of LaTeX, both.
  std::size_t separator_at(std::size_t i) const noexcept {
    const std::size_t begin = i;
    bool comma = false;
    for (; i < text_.size(); ++i) {
      const std::string_view rest = text_.substr(i);
      if (rest.starts_with("{,}")) i += 2, comma = true;
      else if (rest[0] == ',' && !comma) comma = true;
      else if (rest[0] == '\\' && rest.size() > 1 && std::string_view(",;!: ").find(rest[1]) != std::string_view::npos)
        ++i;
      else if (rest[0] != '~' && (rest[0] != ' ' || (i > begin && text_[i - 1] == ','))) break;
    }
    return i - begin;
  }
  bool three_digits(std::size_t i) const noexcept {
    return end_of_decimal(text_, i) >= i + 3 && is_digit(text_[i]) && is_digit(text_[i + 1]) &&
           is_digit(text_[i + 2]) && (i + 3 == text_.size() || !is_digit(text_[i + 3]));
  }

  /// The digits that repeat, in parentheses: 0.1\overline{6} is "0.1(6)".
  void read_repeating() noexcept {
    const bool has_point = std::string_view(digits_, kept_).find('.') != std::string_view::npos;
    const bool point = !has_point && peek() == '.';
    if (!has_point && !point) return;
    std::string_view rest = text_.substr(at_ + (point ? 1 : 0));
    constexpr std::string_view kMarks[] = {"\\overline{", "\\bar{", "\\dot{", "("};
    const auto* mark =
        std::find_if(std::begin(kMarks), std::end(kMarks), [rest](auto m) { return rest.starts_with(m); });
    if (mark == std::end(kMarks) || (*mark == "(" && !point)) return;
    rest.remove_prefix(mark->size());
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
    constexpr std::string_view kDots[] = {"...", "\\dots", "\\ldots"};
    const std::string_view rest = text_.substr(at_), digits(digits_, kept_);
    const auto* dots = std::find_if(std::begin(kDots), std::end(kDots), [rest](auto d) { return rest.starts_with(d); });
    const std::size_t point = digits.find('.');
    if (dots == std::end(kDots) || point == std::string_view::npos) return false;
    at_ += dots->size();
    const std::string_view places = digits.substr(point + 1);
    for (const std::size_t period : {1, 2, 3, 6}) {
      const std::size_t size = period * (period == 1 ? 3 : 2);
      if (places.size() < size) continue;
      const std::string_view tail = places.substr(places.size() - size);
      if (tail.substr(period) != tail.substr(0, size - period)) continue;
      while (kept_ > point + 2 * period && std::string_view(digits_ + kept_ - 2 * period, period) ==
                                               std::string_view(digits_ + kept_ - period, period))
        kept_ -= period;
      std::copy_backward(digits_ + kept_ - period, digits_ + kept_, digits_ + kept_ + 1);
      digits_[kept_ - period] = '(';
      ++kept_;
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
  int comma_;
  std::size_t at_, kept_ = 0;
};

// Each name is a value of the row; '/' before those of parts.
constexpr std::string_view kSmall =
    " zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen ";
constexpr std::string_view kTens = " twenty thirty forty fifty sixty seventy eighty ninety ";
constexpr std::string_view kParts =
    " half third quarter fourth fifth sixth seventh eighth ninth tenth twelfth sixteenth "
    "twentieth hundredth thousandth ";
constexpr std::int64_t kDenominators[] = {2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 100, 1000};
constexpr std::string_view kPowers = " thousand million billion ";
constexpr std::int64_t kMostParts = 19;  // twenty-third is no fraction

/// Which of the names in a list a word is; −1: none.
int place_in(std::string_view list, std::string_view word) noexcept {
  int place = 0;
  for (std::size_t at = 1; at < list.size(); ++place) {
    const std::size_t end = list.find(' ', at);
    if (list.substr(at, end - at) == word) return place;
    at = end + 1;
  }
  return -1;
}

/// Reads words; each step stands behind the words that it took.
struct Words {
  std::string_view text;
  std::size_t at = 0;
  char lower[16] = {};

  /// The next word in lower case, behind at most one space or hyphen; empty where none stands there.
  std::string_view next(std::size_t& end) noexcept {
    end = at + (at > 0 && at < text.size() && (text[at] == ' ' || text[at] == '-') ? 1 : 0);
    std::size_t size = 0;
    for (; end < text.size() && is_letter(text[end]); ++end)
      if (size < sizeof lower) lower[size++] = base::lower(text[end]);
    return {lower, size};
  }
  int take(std::string_view list) noexcept {
    std::size_t end = 0;
    const int place = place_in(list, next(end));
    if (place >= 0) at = end;
    return place;
  }

  std::int64_t below_hundred() noexcept {
    if (const int small = take(kSmall); small >= 0) return small;
    const int tens = take(kTens);
    if (tens < 0) return -1;
    const std::size_t before = at;
    const int unit = take(kSmall);
    if (unit < 1 || unit > 9) at = before;
    return 20 + 10 * tens + (unit >= 1 && unit <= 9 ? unit : 0);
  }
  std::int64_t below_thousand() noexcept {
    const std::int64_t number = below_hundred();
    if (number < 1 || number > 9 || take(" hundred ") < 0) return number;
    const std::size_t before = at;
    take(" and ");
    const std::int64_t rest = below_hundred();
    if (rest < 1) at = before;
    return 100 * number + std::max<std::int64_t>(rest, 0);
  }
  std::int64_t whole() noexcept {
    std::int64_t total = 0, part = below_thousand();
    for (std::size_t end = at; part > 0; end = at) {
      const int power = take(kPowers);
      if (power < 0) return at = end, total + part;
      for (int k = 0; k <= power; ++k) part *= 1000;
      total += part;
      end = at;
      part = below_thousand();
      if (part < 1) return at = end, total;
    }
    return part;
  }
  /// The denominator of so many parts: 3 of two thirds; 0 where there is none.
  std::int64_t parts(std::int64_t above) noexcept {
    std::size_t end = 0;
    std::string_view word = next(end);
    if (above < 1 || above > kMostParts) return 0;
    if (above > 1 && word == "halves") return at = end, 2;
    if (above > 1 && (word.empty() || word.back() != 's')) return 0;
    if (above > 1) word.remove_suffix(1);
    const int place = place_in(kParts, word);
    if (place < 0 || (above > 1 && place == 0)) return 0;
    at = end;
    return kDenominators[place];
  }
};

}  // namespace

std::size_t end_of_decimal(std::string_view text, std::size_t begin) noexcept {
  const auto digit_at = [text](std::size_t k) { return k < text.size() && is_digit(text[k]); };
  std::size_t end = begin;
  while (digit_at(end) || (end < text.size() && text[end] == '.' && digit_at(end + 1))) ++end;
  return end;
}

WrittenNumber scan_number(std::vector<char>& source, std::size_t begin, int comma) {
  return Scanner(source, begin, comma).run();
}

std::optional<Numeral> numeral_at(std::string_view text) noexcept {
  // What no such word begins with, most words do.
  if (text.empty() || std::string_view("aefhnostz").find(base::lower(text[0])) == std::string_view::npos)
    return std::nullopt;
  Words words{text};
  if (const bool article = words.take(" a an ") >= 0; article || base::lower(text[0]) == 'h') {  // half, a third
    if (article && words.at < text.size() && text[words.at] != ' ') return std::nullopt;
    const std::int64_t below = words.parts(1);
    const bool ends = text.find_first_not_of(" .$", words.at) >= std::min(text.find('}', words.at), text.size());
    return below > 0 && ends ? std::optional(Numeral{1, below, words.at}) : std::nullopt;
  }
  Numeral read{words.whole(), 1, words.at};
  if (read.value < 0) return std::nullopt;
  if (const std::int64_t below = words.parts(read.value); below > 0) {
    read.denominator = below;
  } else if (read.value > 0 && words.take(" and ") >= 0) {  // two and a half
    const std::int64_t above = words.take(" a ") >= 0 ? 1 : words.below_hundred();
    if (const std::int64_t under = words.parts(above); under > above)
      read = {read.value * under + above, under, words.at};
    else words.at = read.size;
  }
  read.size = words.at;
  std::size_t end = 0;  // "one of", "two third", "one half-life", "forty two three"
  const std::string_view next = words.next(end);
  const bool other = next == "of" || words.parts(1) > 0 || words.parts(2) > 0 || place_in(kSmall, next) >= 0;
  const bool compound = read.denominator > 1 && read.size < text.size() && text[read.size] == '-';
  return other || compound ? std::nullopt : std::optional(read);
}

}  // namespace qrl::reward::math

#include "reward/math/numerals.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

constexpr std::int64_t kLargest = 1'000'000'000'000, kHundred = 100,
                       kMostParts = 19;  // twenty-third is no fraction
constexpr std::size_t kMaxPeriod = 15;

constexpr std::string_view kDigits = "0123456789";

class Scanner {
 public:
  Scanner(std::string_view text, std::size_t begin, int comma, const Vocabulary& vocabulary) noexcept
      : text_(text), rest_(text.substr(begin)), vocabulary_(vocabulary), comma_(comma) {}

  WrittenNumber run() {
    take_digits();
    const std::size_t lead = digits_.size();
    bool commas_alone = true;
    while (lead >= 1 && lead <= 3) {
      std::string_view group = rest_;
      if (!vocabulary_.take(WordClass::thousands, group) || num_digits(group) != 3) break;
      const bool comma = rest_[0] == ',' && rest_.size() - group.size() == 1;
      number_.ambiguous_comma = number_.ambiguous_comma || comma;
      if (comma && comma_ != 0) break;
      commas_alone = commas_alone && comma;
      rest_ = group;
      take_digits();
    }
    if (commas_alone && digits_.size() > lead) number_.first_group = lead;
    const bool comma = digits_.size() == lead && rest_.starts_with(',') && num_digits(rest_.substr(1)) > 0;
    number_.ambiguous_comma = number_.ambiguous_comma || comma;
    if ((comma && comma_ == 2) || (rest_.starts_with('.') && num_digits(rest_.substr(1)) > 0)) {
      rest_.remove_prefix(1);
      digits_ += '.';
      take_digits();
    }
    if (!take_dots()) take_repeating();
    take_exponent();
    number_.end = text_.size() - rest_.size();
    return std::move(number_);
  }

 private:
  static std::size_t num_digits(std::string_view text) noexcept {
    return std::min(text.find_first_not_of(kDigits), text.size());
  }
  void take_digits() {
    const std::size_t size = num_digits(rest_);
    digits_ += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  /// The digits that repeat, in parentheses: 0.1\overline{6} is "0.1(6)".
  void take_repeating() {
    const bool whole = digits_.find('.') == std::string::npos;
    if (whole != rest_.starts_with('.') || rest_.starts_with('(')) return;
    std::string_view period = rest_.substr(whole ? 1 : 0);
    if (!vocabulary_.take(WordClass::period, period)) return;
    const std::size_t size = num_digits(period);
    if (size == 0 || size > kMaxPeriod || size == period.size() || !has("})", period[size])) return;
    digits_ += (whole ? ".(" : "(") + std::string(period.substr(0, size)) + ')';
    rest_ = period.substr(size + 1);
  }

  /// Dots behind a decimal: 0.1666... is "0.1(6)" where its digits show their period; others say nothing.
  bool take_dots() {
    const std::size_t point = digits_.find('.');
    if (point == std::string::npos || !vocabulary_.take(WordClass::dots, rest_)) return false;
    for (const std::size_t period : {1, 2, 3, 6}) {
      const std::size_t size = period * (period == 1 ? 3 : 2);
      if (digits_.size() < point + 1 + size) continue;
      const std::string_view tail = std::string_view(digits_).substr(digits_.size() - size);
      if (tail.substr(period) != tail.substr(0, size - period)) continue;
      digits_.insert(digits_.size() - period, "(") += ')';
      break;
    }
    return true;
  }

  /// 1e6, 1.5E-3. Euler's number stands apart, 3e - 5, or in a formula that has powers of it: e^2-2e-1.
  void take_exponent() {
    if (!rest_.starts_with('e') && !rest_.starts_with('E')) return;
    const bool sign = rest_.size() > 1 && has("+-", rest_[1]);
    const std::string_view exponent = rest_.substr(sign ? 2 : 1);
    if (num_digits(exponent) == 0 || (sign && text_.find("e^") != std::string_view::npos)) return;
    digits_ += rest_[1] == '-' ? "e-" : "e";
    rest_ = exponent;
    take_digits();
  }

  std::string_view text_, rest_;
  const Vocabulary& vocabulary_;
  int comma_;
  WrittenNumber number_;
  std::string& digits_ = number_.digits;
};

/// Reads words, each behind at most one space or hyphen.
class NumberWords {
 public:
  NumberWords(std::string_view text, const Vocabulary& vocabulary) : text_(text), vocabulary_(vocabulary) { look(0); }

  std::size_t at() const noexcept { return at_; }  ///< behind the words taken
  char next() const noexcept { return word_.code; }
  bool take(char kind) {
    const bool taken = word_.code == kind;
    if (taken) look(end_);
    return taken;
  }
  void look(std::size_t at) {
    at_ = at;
    const std::size_t begin = at + (at > 0 && at < text_.size() && has(" -", text_[at]) ? 1 : 0);
    const std::string_view letters = letters_of(text_.substr(begin));
    const Meaning* number = vocabulary_.find(WordClass::number, in_lower_case(letters));
    word_ = number == nullptr ? Meaning{} : *number;
    end_ = begin + letters.size();
  }

  /// −1: no number stands there.
  std::int64_t whole() {
    std::int64_t total = 0, part = -1, room = kLargest;
    for (;; look(end_)) {
      const std::size_t before = at_;
      if (room == kHundred) take('&');
      if (word_.code == 'n' && (part < 0 || (word_.value > 0 && word_.value < room))) {
        part = std::max<std::int64_t>(part, 0) + word_.value;
        room = word_.value < 20 ? 1 : 10;
      } else if (word_.code == 'h' && room == 1 && part > 0 && part < 10) {
        part *= room = kHundred;
      } else if (word_.code == 'p' && part > 0 && total < kLargest / word_.value) {
        total += std::exchange(part, 0) * word_.value;
        room = 1000;
      } else {
        look(before);
        return part < 0 ? -1 : total + part;
      }
    }
  }
  /// The denominator of so many parts: 3 of two thirds; 0 where there is none.
  std::int64_t parts(std::int64_t above) {
    const auto below = static_cast<std::int64_t>(word_.value);
    return above > 0 && above <= kMostParts && take(above > 1 ? 's' : '/') ? below : 0;
  }

 private:
  std::string_view text_;
  const Vocabulary& vocabulary_;
  std::size_t at_ = 0, end_ = 0;
  Meaning word_;  ///< the next one
};

}  // namespace

WrittenNumber scan_number(std::string_view text, std::size_t begin, int comma, const Vocabulary& vocabulary) {
  return Scanner(text, begin, comma, vocabulary).run();
}

std::optional<Numeral> numeral_at(std::string_view text, const Vocabulary& vocabulary) {
  NumberWords words(text, vocabulary);
  if (words.take('a') || words.next() == '/') {  // half, a third
    const std::int64_t below = words.parts(1);
    const bool ends = text.find_first_not_of(" .$", words.at()) == std::string_view::npos;
    return below > 0 && ends ? std::optional(Numeral{1, below, words.at()}) : std::nullopt;
  }
  Numeral read{words.whole()};
  if (read.value < 0) return std::nullopt;
  const std::size_t end = words.at();
  if (const std::int64_t below = words.parts(read.value); below > 0) {
    read.denominator = below;
  } else if (read.value > 0 && words.take('&')) {  // two and a half
    const std::int64_t above = words.take('a') ? 1 : words.whole(), under = words.parts(above);
    if (under > above) read = {read.value * under + above, under};
    else words.look(end);
  }
  read.size = words.at();
  return has("o/sn", words.next()) ? std::nullopt : std::optional(read);  // "one of", "two third", "forty two three"
}

}  // namespace qrl::reward::math

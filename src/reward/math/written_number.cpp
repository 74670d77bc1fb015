#include "reward/math/written_number.h"

#include <algorithm>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_space;

class Scanner {
 public:
  Scanner(std::vector<char>& source, std::size_t begin, Comma comma) noexcept
      : source_(source), text_(source.data(), source.size()), comma_(comma), at_(begin) {}

  WrittenNumber run() {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    const std::size_t lead = at_ - begin;
    std::size_t kept = lead;  // digits are moved together within the source: thousands leave gaps
    char* const digits = source_.data() + begin;
    bool commas_alone = false;
    if (lead >= 1 && lead <= 3) {
      for (std::size_t size = thousands_separator(at_); size != 0; size = thousands_separator(at_)) {
        const bool plain_comma = size == 1 && peek() == ',';
        if (!three_digits(at_ + size)) break;
        if (plain_comma && text_[begin] == '0') break;
        if (plain_comma) ambiguous_comma_ = true;
        if (plain_comma && comma_ != Comma::thousands) break;
        commas_alone = (commas_alone || kept == lead) && plain_comma;
        for (std::size_t k = 0; k < 3; ++k) digits[kept++] = text_[at_ + size + k];
        at_ += size + 3;
      }
    }
    if (peek() == ',' && is_digit(peek(1)) && kept == lead) {
      ambiguous_comma_ = true;
      if (comma_ == Comma::decimal) {
        digits[kept++] = '.';
        for (++at_; is_digit(peek()); ++at_) digits[kept++] = peek();
        return {at_, kept, ambiguous_comma_};
      }
    }
    if (peek() == '.' && is_digit(peek(1))) {
      digits[kept++] = '.';
      for (++at_; is_digit(peek()); ++at_) digits[kept++] = peek();
    }
    read_repeating(digits, kept);
    read_scientific(digits, kept);
    return {at_, kept, ambiguous_comma_, commas_alone ? lead : 0};
  }

 private:
  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// What separates thousands at `i`: its length, 0 if nothing does.
  std::size_t thousands_separator(std::size_t i) noexcept {
    const std::string_view rest = text_.substr(i);
    const auto with_spaces = [&](std::size_t size) {
      while (size < rest.size() && is_space(rest[size])) ++size;
      return size;
    };
    if (rest.starts_with("{,}")) return 3;
    if (rest.starts_with("\\!,\\!")) return with_spaces(5);
    if (rest.starts_with(",\\!")) return with_spaces(3);
    if (rest.starts_with(",\\,")) return with_spaces(3);
    if (rest.starts_with("\\,")) return with_spaces(2);
    if (rest.starts_with("\\ ")) return 2;
    if (rest.starts_with("\\!\\,") || rest.starts_with("\\;")) return rest[1] == ';' ? 2 : 4;
    if (rest.starts_with("~")) return 1;
    if (rest.starts_with(" ")) return 1;
    if (rest.starts_with(",")) return 1;
    return 0;
  }
  bool three_digits(std::size_t i) const noexcept {
    return i + 3 <= text_.size() && is_digit(text_[i]) && is_digit(text_[i + 1]) && is_digit(text_[i + 2]) &&
           (i + 3 == text_.size() || !is_digit(text_[i + 3]));
  }

  /// The digits that repeat, in parentheses: 0.1\overline{6} is "0.1(6)".
  void read_repeating(char* digits, std::size_t& kept) {
    std::size_t from = at_;
    const bool has_point = std::string_view(digits, kept).find('.') != std::string_view::npos;
    if (!has_point && text_.substr(from).starts_with('.')) ++from;
    else if (!has_point) return;
    std::string_view rest = text_.substr(from);
    if (rest.starts_with("\\overline{")) rest.remove_prefix(10);
    else if (rest.starts_with("\\bar{") || rest.starts_with("\\dot{")) rest.remove_prefix(5);
    else if (!has_point && from > at_ && rest.starts_with('(')) rest.remove_prefix(1);  // 0.(3)
    else return;
    const std::size_t size = rest.find_first_of(")}");
    if (size == std::string_view::npos) return;  // what is never closed does not fit with its end
    const std::string_view repeating = rest.substr(0, size);
    if (repeating.empty() || repeating.size() > 15 || !std::all_of(repeating.begin(), repeating.end(), is_digit))
      return;
    at_ = static_cast<std::size_t>(rest.data() - text_.data()) + size + 1;
    if (!has_point) digits[kept++] = '.';
    digits[kept++] = '(';
    for (const char c : repeating) digits[kept++] = c;
    digits[kept++] = ')';
  }

  /// The exponent of 1e6, 1.5E-3 or 3e-5. Euler's number stands apart, 3e - 5, or in a formula that has powers of it:
  /// e^2-2e-1.
  void read_scientific(char* digits, std::size_t& kept) {
    if ((peek() != 'e' && peek() != 'E')) return;
    const bool sign = peek(1) == '-' || peek(1) == '+';
    if (!is_digit(peek(sign ? 2 : 1)) || (sign && text_.find("e^") != std::string_view::npos)) return;
    digits[kept++] = 'e';
    ++at_;
    if (sign) {
      if (peek() == '-') digits[kept++] = '-';
      ++at_;
    }
    for (; is_digit(peek()); ++at_) digits[kept++] = peek();
  }

  std::vector<char>& source_;
  std::string_view text_;
  Comma comma_;
  std::size_t at_;
  bool ambiguous_comma_ = false;
};

}  // namespace

std::size_t end_of_decimal(std::string_view text, std::size_t begin) noexcept {
  const auto digit_at = [text](std::size_t k) { return k < text.size() && is_digit(text[k]); };
  std::size_t end = begin;
  while (digit_at(end) || (end < text.size() && text[end] == '.' && digit_at(end + 1))) ++end;
  return end;
}

WrittenNumber scan_number(std::vector<char>& source, std::size_t begin, Comma comma) {
  return Scanner(source, begin, comma).run();
}

}  // namespace qrl::reward::math

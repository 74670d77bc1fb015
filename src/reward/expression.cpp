#include "reward/expression.h"

#include <limits>

namespace qrl::reward {

namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Parser {
 public:
  Parser(std::string_view text, Operators operators) noexcept : text_(text), operators_(operators) {}

  Expression run() noexcept {
    result_.value = sum();
    if (!stopped() && peek() != '\0') fail(ExpressionFault::grammar);
    return result_;
  }

 private:
  /// Faults of the text end the reading; faults of the value are kept, since the rest must still be in the grammar.
  bool stopped() const noexcept {
    return result_.fault == ExpressionFault::grammar || result_.fault == ExpressionFault::too_deep;
  }
  void fail(ExpressionFault fault) noexcept {
    const bool of_value = fault == ExpressionFault::overflow || fault == ExpressionFault::division_by_zero;
    if (result_.fault == ExpressionFault::none || (!stopped() && !of_value)) result_.fault = fault;
  }

  /// The next operator, parenthesis or first digit, after white space; '\0' at the end. Leaves it unread; `width_` is
  /// what it takes.
  char peek() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    width_ = 1;
    if (at_ == text_.size()) return '\0';
    const char c = text_[at_];
    if (c == '\\' && operators_ == Operators::latex) return peek_command();
    return c == '\0' ? '?' : c;  // a NUL byte of the text is not its end
  }
  char peek_command() noexcept {
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    width_ = end - at_;
    if (name == "times" || name == "cdot") return '*';
    if (name == "div") return '/';
    return '?';
  }
  void take() noexcept { at_ += width_; }

  Rational sum() noexcept {
    Rational left = product();
    for (char op = peek(); !stopped() && (op == '+' || op == '-'); op = peek()) {
      take();
      left = add(left, product(), op);
    }
    return left;
  }

  Rational product() noexcept {
    Rational left = signed_operand();
    for (char op = peek(); !stopped() && (op == '*' || op == '/'); op = peek()) {
      take();
      left = multiply(left, signed_operand(), op);
    }
    return left;
  }

  Rational signed_operand() noexcept {
    if (stopped()) return {};
    const int outer_depth = depth_;
    bool negative = false;
    char c = peek();
    for (; c == '+' || c == '-'; c = peek()) {
      if (!descend()) return {};
      negative ^= c == '-';
      take();
    }
    Rational value;
    if (is_digit(c)) {
      value = number();
    } else if (c == '(') {
      if (!descend()) return {};
      take();
      value = sum();
      if (peek() == ')') take();
      else fail(ExpressionFault::grammar);
    } else {
      fail(ExpressionFault::grammar);
    }
    depth_ = outer_depth;
    if (negative) value.numerator = -value.numerator;  // never the least int64: see narrow()
    return value;
  }

  bool descend() noexcept {
    if (++depth_ > kMaxDepth) fail(ExpressionFault::too_deep);
    return depth_ <= kMaxDepth;
  }

  Rational number() noexcept {
    const std::size_t begin = at_;
    std::int64_t value = 0;
    bool fits = true;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      fits = fits && !__builtin_mul_overflow(value, std::int64_t{10}, &value) &&
             !__builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value);
    }
    if (text_[begin] == '0' && at_ - begin > 1) fail(ExpressionFault::grammar);
    if (!fits) fail(ExpressionFault::overflow);
    if (result_.num_numbers < kMaxNumbers) result_.numbers[result_.num_numbers] = fits ? value : -1;
    ++result_.num_numbers;
    return {fits ? value : 0, 1};
  }

  /// More numbers than any task gives: the answer is wrong whatever its value, so long sums cost no arithmetic.
  bool value_matters() const noexcept { return result_.num_numbers <= kMaxNumbers; }

  // Both operands are below 2^63 in magnitude, so products are below 2^126 and a sum of two of them below 2^127: the
  // 128-bit values are exact, and only the reduced result must fit 64 bits.
  Rational add(Rational a, Rational b, char op) noexcept {
    if (!value_matters()) return {};
    const __int128 x = static_cast<__int128>(a.numerator) * b.denominator;
    const __int128 y = static_cast<__int128>(b.numerator) * a.denominator;
    return narrow(op == '+' ? x + y : x - y, static_cast<__int128>(a.denominator) * b.denominator);
  }
  Rational multiply(Rational a, Rational b, char op) noexcept {
    if (!value_matters()) return {};
    if (op == '/') {
      if (b.numerator == 0) {
        fail(ExpressionFault::division_by_zero);
        return {};
      }
      b = b.numerator > 0 ? Rational{b.denominator, b.numerator} : Rational{-b.denominator, -b.numerator};
    }
    return narrow(static_cast<__int128>(a.numerator) * b.numerator,
                  static_cast<__int128>(a.denominator) * b.denominator);
  }
  Rational narrow(__int128 numerator, __int128 denominator) noexcept {
    __int128 a = numerator < 0 ? -numerator : numerator;
    __int128 b = denominator;
    while (b != 0) {
      const __int128 rest = a % b;
      a = b;
      b = rest;
    }
    numerator /= a;
    denominator /= a;
    constexpr __int128 kMax = std::numeric_limits<std::int64_t>::max();
    if (numerator > kMax || numerator < -kMax || denominator > kMax) {
      fail(ExpressionFault::overflow);
      return {};
    }
    return {static_cast<std::int64_t>(numerator), static_cast<std::int64_t>(denominator)};
  }

  std::string_view text_;
  Operators operators_;
  std::size_t at_ = 0;
  std::size_t width_ = 1;
  int depth_ = 0;
  Expression result_;
};

}  // namespace

Expression evaluate_expression(std::string_view text, Operators operators) noexcept {
  if (text.size() > kMaxExpression_bytes) {
    Expression result;
    result.fault = ExpressionFault::too_long;
    return result;
  }
  return Parser(text, operators).run();
}

}  // namespace qrl::reward

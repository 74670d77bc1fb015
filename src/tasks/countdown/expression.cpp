#include "tasks/countdown/expression.h"

#include <optional>

#include "base/ascii.h"

namespace qrl::tasks {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;

constexpr char kFraction = 'F';  // what `peek` returns for \frac

class Parser {
 public:
  Parser(std::string_view text, Operators operators) noexcept : text_(text), operators_(operators) {}

  Expression run() noexcept {
    result_.value = read_sum();
    if (!stopped() && peek() != '\0') fail(ExpressionFault::grammar);
    return result_;
  }

 private:
  /// Returns whether a fault ends parsing. Parsing continues after overflow and division by zero, because the rest must
  /// match the grammar.
  bool stopped() const noexcept {
    return result_.fault == ExpressionFault::grammar || result_.fault == ExpressionFault::too_deep;
  }
  void fail(ExpressionFault fault) noexcept {
    const bool of_value = fault == ExpressionFault::overflow || fault == ExpressionFault::division_by_zero;
    if (result_.fault == ExpressionFault::none || (!stopped() && !of_value)) result_.fault = fault;
  }

  /// Skips whitespace. Returns the next operator, parenthesis or digit without consuming it; '\0' at the end. Sets
  /// `width_` to its length.
  char peek() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    width_ = 1;
    if (at_ == text_.size()) return '\0';
    const char c = text_[at_];
    if (c == '\\' && operators_ == Operators::latex) return peek_command();
    return c == '\0' || c == kFraction ? '?' : c;  // a NUL byte is not the end
  }
  char peek_command() noexcept {
    std::size_t end = at_ + 1;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    width_ = end - at_;
    if (name == "times" || name == "cdot") return '*';
    if (name == "div") return '/';
    if (name == "frac" || name == "dfrac" || name == "tfrac") return kFraction;
    const char next = end < text_.size() ? text_[end] : '\0';
    const bool sized = (name == "left" && next == '(') || (name == "right" && next == ')');
    if (!sized) return '?';
    ++width_;
    return next;
  }
  void take() noexcept { at_ += width_; }

  Rational read_sum() noexcept {
    Rational left = read_product();
    for (char op = peek(); !stopped() && (op == '+' || op == '-'); op = peek()) {
      take();
      left = add(left, read_product(), op);
    }
    return left;
  }

  Rational read_product() noexcept {
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
      value = read_sum();
      if (peek() == ')') take();
      else fail(ExpressionFault::grammar);
    } else if (c == kFraction) {
      take();
      const Rational numerator = argument();
      value = multiply(numerator, argument(), '/');
    } else {
      fail(ExpressionFault::grammar);
    }
    depth_ = outer_depth;
    if (negative) value.numerator = -value.numerator;  // cannot overflow (see narrow())
    return value;
  }

  Rational argument() noexcept {
    if (stopped()) return {};
    const int outer_depth = depth_;
    const char c = peek();
    if (is_digit(c)) return number(1);
    if (c != '{' || !descend()) {
      fail(ExpressionFault::grammar);
      return {};
    }
    take();
    const Rational value = read_sum();
    if (peek() == '}') take();
    else fail(ExpressionFault::grammar);
    depth_ = outer_depth;
    return value;
  }

  bool descend() noexcept {
    if (++depth_ > kMaxDepth) fail(ExpressionFault::too_deep);
    return depth_ <= kMaxDepth;
  }

  Rational number(std::size_t max_digits = std::string_view::npos) noexcept {
    const std::size_t begin = at_;
    std::int64_t value = 0;
    bool fits = true;
    for (; at_ < text_.size() && is_digit(text_[at_]) && at_ - begin < max_digits; ++at_) {
      fits = fits && !__builtin_mul_overflow(value, std::int64_t{10}, &value) &&
             !__builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value);
    }
    if (text_[begin] == '0' && at_ - begin > 1) fail(ExpressionFault::grammar);
    if (!fits) fail(ExpressionFault::overflow);
    if (result_.num_numbers < kMaxNumbers) result_.numbers[result_.num_numbers] = fits ? value : -1;
    ++result_.num_numbers;
    return {fits ? value : 0, 1};
  }

  /// Returns false for more than kMaxNumbers numbers, where every answer is wrong.
  bool value_matters() const noexcept { return result_.num_numbers <= kMaxNumbers; }

  Rational add(Rational a, Rational b, char op) noexcept {
    return value_matters() ? kept(op == '+' ? sum(a, b) : difference(a, b)) : Rational{};
  }
  Rational multiply(Rational a, Rational b, char op) noexcept {
    if (!value_matters()) return {};
    if (op == '/' && b.numerator == 0) {
      fail(ExpressionFault::division_by_zero);
      return {};
    }
    return kept(op == '*' ? product(a, b) : quotient(a, b));
  }
  Rational kept(std::optional<Rational> value) noexcept {
    if (!value) fail(ExpressionFault::overflow);
    return value.value_or(Rational{});
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

}  // namespace qrl::tasks

#include "reward/math/lexer.h"

#include <algorithm>
#include <utility>

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using T = TokenType;

constexpr std::string_view kSpaced = ":-+=<>,";  // signs that may have braces for spacing

bool is_word_byte(char c) noexcept { return is_letter(c) || static_cast<unsigned char>(c) >= 0x80; }

/// Returns the size of the digits and letters at the text's start if an index behind them makes them a number with a
/// base above ten (A3F_{16}), else 0. One letter has an index and is no number. Neither are small letters that are not
/// upright, unless a digit follows one: 2a_{12} is a product.
std::size_t numeral_with_base(std::string_view text, bool is_upright) noexcept {
  const auto is_numeric = [](char c) { return is_digit(c) || is_letter(c); };
  const auto size = static_cast<std::size_t>(std::ranges::find_if_not(text, is_numeric) - text.begin());
  const std::string_view numeral = text.substr(0, size);
  text.remove_prefix(std::min(text.find_first_not_of("}) ", size), text.size()));
  if (size < 2 || !text.starts_with("_{")) return 0;
  text.remove_prefix(2);
  const auto num_digits = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  if (num_digits != 2 || !text.substr(2).starts_with('}')) return 0;
  const int radix = 10 * (text[0] - '0') + text[1] - '0';
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool is_mixed =
      std::ranges::adjacent_find(numeral, [](char a, char b) { return is_letter(a) && is_digit(b); }) != numeral.end();
  const bool fits = std::ranges::all_of(numeral, [&](char c) { return digit_value(c) < radix; });
  const bool is_number = is_upright || is_mixed || std::ranges::none_of(numeral, is_small);
  return radix > 10 && radix <= kMaxRadix && fits && is_number ? size : 0;
}

class Lexer {
 public:
  Lexer(Tokens& out, Comma comma, const Vocabulary& vocabulary)
      : out_(out), text_(out.source.data(), out.source.size()), comma_(comma), words_(vocabulary) {}

  void run() {
    while (out_.fault.empty() && at_ < text_.size()) {
      if (out_.tokens.size() >= kMaxTokens) return fail("too many tokens");
      const char c = peek();
      if (is_space(c)) {
        space_ = true;
        newline_ = newline_ || c == '\n';
        ++at_;
      } else if (const std::size_t size = numeral_with_base(rest(), is_upright()); size > 0 && !after_letter()) {
        push(T::number, 0, text_.substr(at_, size));
        at_ += size;
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        push_number(scan_number(text_, at_, comma_, words_), at_, 0);
      } else if (c == '\\' && is_letter(peek(1))) {
        read_command();
      } else if (c == '\\' && peek(1) == '\\') {
        read_break();
      } else if (is_word_byte(c)) {
        read_letters();
      } else if (c == '$') {
        ++at_;
        if (is_digit(peek()) && std::ranges::count(text_, '$') == 1) note_currency("dollar");
      } else if (c == '{' && peek(2) == '}' && has(kSpaced, peek(1))) {  // drops the braces of 1{:}2 and {-}7
        out_.source[at_] = out_.source[at_ + 2] = ' ';
      } else {
        read_sign();
      }
    }
    push(T::end);
  }

 private:
  void fail(std::string why) { out_.fault = std::move(why); }
  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  std::string_view rest() const noexcept { return text_.substr(std::min(at_, text_.size())); }
  bool in_text() const noexcept { return at_ < text_end_; }
  bool is_upright() const noexcept { return in_text() || at_ < upright_end_; }
  bool after_letter() const noexcept { return at_ > 0 && (is_word_byte(text_[at_ - 1]) || text_[at_ - 1] == '\\'); }
  void push(T type, char code = 0, std::string_view text = {}) {
    out_.tokens.push_back({type, code, space_, newline_, false, text});
    space_ = newline_ = false;
  }
  T last() const noexcept { return out_.tokens.empty() ? T::end : out_.tokens.back().type; }
  bool after_value() const noexcept {
    return last() == T::number || last() == T::close || last() == T::symbol || last() == T::constant;
  }

  void read_sign() {
    for (std::size_t size = 3; size > 0; --size) {  // longest sign first
      const std::string_view sign = rest().substr(0, size);
      const Meaning* meaning = words_.find(WordClass::sign, sign);
      if (meaning == nullptr) continue;
      at_ += sign.size();
      return push_meaning(*meaning, sign);
    }
    fail("a character that mathematics does not use: " + std::string(rest().substr(0, 1)));
  }

  /// Records the unit of a currency sign; "several" if signs differ.
  void note_currency(std::string_view unit) noexcept {
    out_.currency = out_.currency.empty() || out_.currency == unit ? unit : "several";
  }

  /// Pushes a number. Its digits overwrite its source text, which is never shorter.
  void push_number(const WrittenNumber& number, std::size_t begin, char code) {
    std::ranges::copy(number.digits, out_.source.begin() + static_cast<std::ptrdiff_t>(begin));
    const std::string_view text = text_.substr(begin, number.digits.size());
    const std::size_t slash = code == 'w' ? std::min(text.find('/'), text.size()) : text.size();
    push(T::number, code, text.substr(0, slash));
    out_.tokens.back().thousands = number.thousands;
    if (slash < text.size()) {
      push(T::op, '/', text.substr(slash, 1));
      push(T::number, code, text.substr(slash + 1));
    }
    out_.ambiguous_comma = out_.ambiguous_comma || number.ambiguous_comma;
    at_ = number.end;
  }

  void read_letters() {
    const std::size_t begin = at_;
    while (is_word_byte(peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (!std::ranges::all_of(word, is_letter)) return push(T::word, 't', word);
    const auto numeral = after_value() ? std::nullopt : numeral_at(text_, begin, words_);
    if (numeral) return push_number(*numeral, begin, 'w');
    if (word.size() == 1 && base::begins_with(rest(), ".m")) {  // p.m.
      at_ += 2;
      out_.source[begin + 1] = 'm';
      return push(T::word, 't', text_.substr(begin, 2));
    }
    if (word.size() == 1 && !(in_text() && word[0] >= 'a' && !has("ei", word[0]))) return push_letter(word);
    const Meaning* meaning = words_.word(word);
    // In \text{}, a function's name is prose unless a bracket follows; a symbol's name is always prose.
    const bool called = peek(at_ + 1 == text_end_ ? 1 : 0) == '(';
    const bool name = meaning != nullptr && (meaning->type == T::symbol || (meaning->type == T::function && !called));
    const bool prose = last() == T::word;
    if ((name && in_text()) || (prose && meaning != nullptr && meaning->type == T::op)) meaning = nullptr;
    if (meaning != nullptr) return push_meaning(*meaning, word);
    if (in_text() || prose || words_.is_word(word) || (after_value() && words_.unit(word).code != 0))
      return push(T::word, in_text() ? 't' : '\0', word);
    for (std::size_t k = 0; k < word.size(); ++k) push_letter(word.substr(k, 1));
  }

  void push_letter(std::string_view letter) {
    if (has("ei", letter[0])) return push(T::constant, letter[0], letter);
    push(T::symbol, in_text() ? 't' : at_ <= upright_end_ ? 'r' : '\0', letter);
  }

  void read_command() {
    const std::string_view letters = letters_of(rest().substr(1));
    for (std::string_view name = letters; !name.empty(); name.remove_suffix(1)) {  // \quadx is \quad x
      const Meaning* meaning = words_.command(name);
      if (meaning == nullptr) continue;
      const std::size_t begin = at_;
      at_ += 1 + name.size();
      if (peek() == '*') ++at_;
      return meaning->type == T::wrapper ? read_wrapped(meaning->code, begin) : push_meaning(*meaning, name);
    }
    fail("an unknown command: \\" + std::string(letters));
  }

  void push_meaning(const Meaning& meaning, std::string_view source) {
    if (meaning.type == T::money) return note_currency(meaning.text);
    if (meaning.type == T::begin || meaning.type == T::finish) return read_environment(meaning.type);
    if (meaning.type != T::layout) return push(meaning.type, meaning.code, source);
    space_ = true;
    newline_ = newline_ || meaning.code == 'n';
  }

  /// Reads a line break: a row's end, or a comma outside of environments.
  void read_break() {
    ++at_;
    if (depth_ == 0 && words_.command(letters_of(rest().substr(1))) != nullptr) return;
    ++at_;
    push(depth_ > 0 ? T::newline : T::separator, ',');
    if (depth_ > 0) skip_option();
  }
  /// Skips [2pt] or [t].
  void skip_option() noexcept {
    if (peek() == '[') at_ = std::min(text_.find(']', at_), text_.size() - 1) + 1;
  }

  std::optional<std::string_view> argument() noexcept {
    while (is_space(peek())) ++at_;
    int open = 0;
    for (std::size_t end = at_; peek() == '{' && end < text_.size(); ++end) {
      open += text_[end] == '{' ? 1 : text_[end] == '}' ? -1 : 0;
      if (open > 0) continue;
      const std::size_t begin = std::exchange(at_, end + 1) + 1;
      return text_.substr(begin, end - begin);
    }
    return std::nullopt;
  }

  void read_environment(T type) {
    const auto name = argument();
    if (!name) return fail("an environment without a name");
    depth_ += type == T::begin ? 1 : -1;
    if (type == T::begin) {
      skip_option();
      if (!name->ends_with("matrix")) argument();  // skips its columns: {lcr}
    } else if (last() == T::newline) {
      out_.tokens.pop_back();
    }
    push(type, 0, *name);
  }

  void read_wrapped(char wrapper, std::size_t command) {
    const auto content = argument();
    if (wrapper == 'n' && (content || is_letter(peek()))) {  // \mathbb{R}, \mathbb R
      at_ += content ? 0 : 1;
      return push(T::symbol, 0, text_.substr(command, at_ - command));
    }
    if (!content || wrapper == 'd') return;
    const bool is_numeral = numeral_with_base({content->data(), text_.data() + text_.size()}, true) == content->size();
    const bool letters = !is_numeral && content->size() > 1 && std::ranges::all_of(*content, is_letter);
    if (wrapper == 'o' || (wrapper == 'r' && letters)) {
      const bool unit = wrapper == 'r' && after_value() && words_.unit(*content).code != 0;
      const Meaning* meaning = unit ? nullptr : words_.word(*content);
      return meaning != nullptr ? push_meaning(*meaning, *content)
                                : push(wrapper == 'o' ? T::function : T::word, wrapper == 'o' ? '\0' : 'r', *content);
    }
    at_ -= content->size() + 1;  // to read the content next
    const std::size_t end = at_ + content->size();
    if (wrapper == 'r') upright_end_ = end;
    else if (!has(*content, '=')) text_end_ = end + 1;  // content with = is a formula: \text{y = 2x + 3}
    out_.source[end] = ' ';
  }

  Tokens& out_;
  std::string_view text_;
  Comma comma_;
  const Vocabulary& words_;
  std::size_t at_ = 0, upright_end_ = 0, text_end_ = 0;  ///< reading position; ends of the last \mathrm{…} and \text{…}
  bool space_ = false, newline_ = false;
  int depth_ = 0;  ///< number of open environments
};

}  // namespace

Tokens tokenize(std::string_view text, Comma comma, const Vocabulary& vocabulary) {
  Tokens tokens;
  if (text.size() > kMaxAnswer_bytes) {
    tokens.fault = "too long";
    return tokens.tokens.push_back({}), tokens;
  }
  const std::string spelled = normalized(text);
  tokens.source.assign(spelled.begin(), spelled.end());
  tokens.tokens.reserve(32);
  Lexer(tokens, comma, vocabulary).run();
  return tokens;
}

}  // namespace qrl::reward::math

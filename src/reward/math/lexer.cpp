#include "reward/math/lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using T = TokenType;

constexpr std::string_view kSpaced = ":-+=<>,";  // in braces of their own
constexpr std::size_t kMaxShown_bytes = 40;

bool is_word_byte(char c) noexcept { return is_letter(c) || static_cast<unsigned char>(c) >= 0x80; }

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
        newline_ = newline_ || c == '\n' || c == '\r';
        ++at_;
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        read_number();
      } else if (c == '\\' && is_letter(peek(1))) {
        read_command();
      } else if (c == '\\' && peek(1) == '\\') {
        read_break();
      } else if (is_word_byte(c)) {
        read_letters();
      } else if (c == '$') {
        read_dollar();
      } else if (c == '{' && peek(2) == '}' && kSpaced.find(peek(1)) != std::string_view::npos) {  // 1{:}2, {-}7
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
  bool in_text() const noexcept { return at_ < text_end_ && !formula_in_text_; }
  void push(T type, char code = 0, std::string_view text = {}) {
    out_.tokens.push_back({type, code, space_, newline_, false, text});
    space_ = newline_ = false;
  }
  /// The last token; of type end where there is none.
  Token last() const noexcept { return out_.tokens.empty() ? Token{} : out_.tokens.back(); }
  bool after_value() const noexcept {
    const Token token = last();
    return token.type == T::number || token.type == T::close || token.type == T::symbol || token.type == T::constant ||
           (token.type == T::op && (token.code == '%' || token.code == 'd'));
  }

  void read_sign() {
    for (std::size_t size = 3; size > 0; --size) {  // the longest
      const std::string_view sign = rest().substr(0, size);
      const Meaning* meaning = words_.find(WordClass::sign, sign);
      if (meaning == nullptr) continue;
      at_ += sign.size();
      return push_meaning(*meaning, sign);
    }
    fail("a character that mathematics does not use: " + std::string(rest().substr(0, 1)));
  }

  /// Mathematics, or money where it stands alone before a number.
  void read_dollar() {
    const bool alone = text_.find('$') == at_ && text_.find('$', at_ + 1) == std::string_view::npos;
    ++at_;
    if (alone && is_digit(peek())) note_currency("dollar");
    else formula_in_text_ = in_text();
  }

  /// Signs of money are no tokens: they say what all the numbers of the answer are.
  void note_currency(std::string_view unit) noexcept {
    if (out_.currency.empty()) out_.currency = unit;
    else if (out_.currency != unit) out_.currency = "several";
    space_ = true;
  }

  void read_number() {
    const WrittenNumber number = scan_number(text_, at_, comma_, words_);
    out_.ambiguous_comma = out_.ambiguous_comma || number.ambiguous_comma;
    write(number.digits, T::number, 0, at_);
    out_.tokens.back().thousands = number.thousands;
    at_ = number.end;
  }
  /// A token whose text takes the place of its spelling, which is as long or longer; where it ends.
  std::size_t write(const std::string& text, T type, char code, std::size_t begin) {
    std::ranges::copy(text, out_.source.begin() + static_cast<std::ptrdiff_t>(begin));
    push(type, code, text_.substr(begin, text.size()));
    return begin + text.size();
  }

  void read_letters() {
    const std::size_t begin = at_;
    bool foreign = false;
    const auto apostrophe = [&] { return peek() == '\'' && at_ > begin + 1 && is_letter(peek(1)); };  // farmer's
    for (; is_word_byte(peek()) || apostrophe(); ++at_) foreign = foreign || !is_letter(peek());
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (foreign) return push(T::word, in_text() ? 't' : '\0', word);
    if (read_numeral(begin)) return;
    const char half = static_cast<char>(word[0] | 32);
    if (word.size() == 1 && (half == 'a' || half == 'p') && peek() == '.' && (peek(1) | 32) == 'm' &&
        !is_letter(peek(2))) {  // p.m.
      at_ += 2;
      out_.source[begin + 1] = 'm';
      return push(T::word, 't', text_.substr(begin, 2));
    }
    if (word.size() == 1 && !(in_text() && word[0] >= 'a' && word != "e" && word != "i")) return push_letter(word);
    const Meaning* meaning = words_.word(word);
    // Within text a function's name is one before its brackets alone: \text{lcm}(3,4), and a symbol's is a word.
    const bool called =
        peek() == '(' || (at_ + 1 == text_end_ && (peek(1) == '(' || rest().substr(1).starts_with("\\left(")));
    const bool name = meaning != nullptr && (meaning->type == T::symbol || (meaning->type == T::function && !called));
    const bool prose = last().type == T::word && space_;
    if ((name && in_text()) || (prose && meaning != nullptr && meaning->type == T::op)) meaning = nullptr;
    if (meaning != nullptr) return push_meaning(*meaning, word);
    const bool unit = after_value() && words_.unit(word).code != 0;
    if (in_text() || unit || prose || words_.is_word(word)) return push(T::word, in_text() ? 't' : '\0', word);
    for (std::size_t k = 0; k < word.size();
         ++k) {  // a product, perhaps with a function or constant at its end: xsin, 2pir
      const Meaning* tail = k > 0 ? words_.word(word.substr(k)) : nullptr;
      if (tail != nullptr && (tail->type == T::function || tail->type == T::constant || tail->type == T::root))
        return push(tail->type, tail->code, tail->text);
      push_letter(word.substr(k, 1));
    }
  }

  void push_letter(std::string_view letter) {
    if (letter == "e" || letter == "i") return push(T::constant, letter[0], letter);
    push(T::symbol, in_text() ? 't' : at_ <= upright_end_ ? 'r' : '\0', letter);
  }

  /// A number in words. Its digits take the place of its letters, which are more.
  bool read_numeral(std::size_t begin) {
    const bool behind_number = last().type == T::number;
    const auto numeral =
        after_value() && !behind_number
            ? std::nullopt
            : numeral_at(text_.substr(begin, text_end_ > begin ? text_end_ - 1 - begin : std::string_view::npos),
                         words_);
    if (!numeral || (begin > 0 && text_[begin - 1] == '-') || (behind_number && numeral->denominator > 1)) return false;
    const std::size_t end = write(std::to_string(numeral->value), T::number, 'w', begin);
    if (numeral->denominator > 1)
      write(std::to_string(numeral->denominator), T::number, 'w', write("/", T::op, '/', end));
    at_ = begin + numeral->size;
    return true;
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
    fail("a command that is not known: \\" + std::string(letters.substr(0, kMaxShown_bytes)));
  }

  /// What means itself is a part of the source.
  void push_meaning(const Meaning& meaning, std::string_view source) {
    if (meaning.type == T::money) return note_currency(meaning.text);
    if (meaning.type == T::begin || meaning.type == T::finish) return read_environment(meaning.type);
    if (meaning.type != T::layout)
      return push(meaning.type, meaning.code, meaning.text == source ? source : meaning.text);
    space_ = true;
    newline_ = newline_ || meaning.code == 'n';
    if (meaning.code == '.' && peek() == '.') ++at_;  // \right.
  }

  /// A line break: the end of a row, or a comma outside of environments. \\frac is \frac.
  void read_break() {
    at_ += 2;
    if (depth_ > 0) {
      push(T::newline);
      skip_option();
    } else if (words_.command(letters_of(rest())) != nullptr) {
      --at_;
    } else {
      push(T::separator, ',');
    }
  }
  /// [2pt], [t].
  void skip_option() noexcept {
    if (peek() == '[') at_ = std::min(text_.find(']', at_), text_.size() - 1) + 1;
  }

  /// The end of the content of the braces that follow; nothing when they do not. Leaves the content to be read.
  std::optional<std::size_t> open_brace() noexcept {
    while (is_space(peek())) ++at_;
    if (peek() != '{') return std::nullopt;
    int open = 0;
    for (std::size_t i = at_; i < text_.size(); ++i) {
      open += text_[i] == '{' ? 1 : text_[i] == '}' ? -1 : 0;
      if (open == 0) return ++at_, i;
    }
    return std::nullopt;
  }

  /// What the braces that follow hold; at_ is behind them then.
  std::optional<std::string_view> argument() noexcept {
    const auto end = open_brace();
    if (!end) return std::nullopt;
    const std::size_t begin = std::exchange(at_, *end + 1);
    return text_.substr(begin, *end - begin);
  }

  void read_environment(T type) {
    const auto name = argument();
    if (!name) return fail("an environment without a name");
    depth_ += type == T::begin ? 1 : -1;
    if (type == T::begin) {
      skip_option();
      if (!name->ends_with("matrix")) argument();  // its columns
    }
    push(type, 0, *name);
  }

  void read_wrapped(char wrapper, std::size_t command) {
    const auto end = open_brace();
    if (wrapper == 'n' && (end || is_letter(peek()))) {  // \mathbb{R}, \mathbb R
      at_ = end.value_or(at_) + 1;
      return push(T::symbol, 0, text_.substr(command, at_ - command));
    }
    if (!end)
      return wrapper == 'r' || wrapper == 'p' || wrapper == 'd' ? void() : fail("a command without its argument");
    const std::string_view content = text_.substr(at_, *end - at_);
    const bool letters = content.size() > 1 && std::ranges::all_of(content, is_letter);
    if (wrapper == 'c' || wrapper == 'd') {
      at_ = *end + 1;  // what it colors follows in braces of its own
    } else if (wrapper == 'o' || (wrapper == 'r' && letters)) {
      at_ = *end + 1;
      const bool unit = wrapper == 'r' && after_value() && words_.unit(content).code != 0;
      const Meaning* meaning = unit ? nullptr : words_.word(content);
      if (meaning != nullptr) push_meaning(*meaning, content);
      else push(wrapper == 'o' ? T::function : T::word, wrapper == 'o' ? '\0' : 'r', content);
    } else if (wrapper == 'r' || wrapper == 't') {
      const bool formula = content.find('=') != std::string_view::npos && !has_word(content);  // \text{y = 2x + 3}
      if (wrapper == 'r') upright_end_ = *end;
      else if (!formula) text_end_ = std::max(text_end_, *end + 1), formula_in_text_ = false;
      out_.source[*end] = ' ';
    } else {
      --at_;  // its braces are LaTeX's own
    }
  }
  bool has_word(std::string_view content) const noexcept {
    for (std::size_t k = 1; k < content.size(); ++k)
      if (is_letter(content[k]) && is_letter(content[k - 1])) return true;
    return content.find('\\') != std::string_view::npos;
  }

  Tokens& out_;
  std::string_view text_;
  Comma comma_;
  const Vocabulary& words_;
  std::size_t at_ = 0, upright_end_ = 0, text_end_ = 0;  ///< the last \mathrm{…} ends, behind \text{…}
  bool space_ = false, newline_ = false;
  bool formula_in_text_ = false;  ///< between $ within \text{…}
  int depth_ = 0;                 ///< environments open
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

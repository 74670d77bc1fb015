#include "data/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/ascii.h"
#include "base/text.h"
#include "data/jinja/values.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

namespace {

constexpr std::size_t kMaxTagTokens = 256;  // with the limits on nesting, it bounds recursion
constexpr std::size_t kMaxTemplate_bytes = std::size_t{1} << 20, kMaxTags = 10'000;  // bound the time to compile

using base::is_digit;

bool is_name_start(char c) { return base::is_letter(c) || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(const std::string& text) {
    if (text.size() > kMaxTemplate_bytes) fail("a template of more than 1 MiB");
    // Converts all line ends to \n and drops the last one, like Jinja.
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
      text_ += text[i] == '\r' ? '\n' : text[i];
    }
    if (text_.ends_with('\n')) text_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) outside();
    tokens_.push_back({});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  void skip_space() { at_ += leading_space_bytes(rest(), Spaces::python); }
  void put(TokenKind kind, std::string text) {
    if (kind != TokenKind::text || !text.empty()) tokens_.push_back({kind, std::move(text)});
  }

  void outside() {
    std::size_t begin = at_;
    while (begin < text_.size() && (text_[begin] != '{' || begin + 1 == text_.size() ||
                                    std::string_view("{%#").find(text_[begin + 1]) == std::string_view::npos))
      ++begin;
    std::string text = text_.substr(at_, begin - at_);
    at_ = begin;
    if (at_ == text_.size()) return put(TokenKind::text, std::move(text));
    const char kind = text_[at_ + 1];
    at_ += 2;
    const char control = at_ < text_.size() ? text_[at_] : '\0';
    if (control == '-') text.resize(text.size() - trailing_space_bytes(text, Spaces::python));
    if (control == '-' || control == '+') ++at_;
    else if (kind != '{') strip_line_start(text);
    put(TokenKind::text, std::move(text));
    if (kind == '#') comment();
    else tag(kind);
  }

  void strip_line_start(std::string& text) const {
    const std::size_t line = text.rfind('\n') + 1;  // 0 without a line end
    const std::string_view last = std::string_view(text).substr(line);
    if ((line > 0 || is_line_start_) && leading_space_bytes(last, Spaces::python) == last.size()) text.resize(line);
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) fail("an unclosed comment");
    const char control = end > at_ ? text_[end - 1] : '\0';
    at_ = end + 2;
    behind(control, true);
  }

  void tag(char kind) {
    if (++num_tags_ > kMaxTags) fail("a template of more than 10,000 tags");
    const bool is_block = kind == '%';
    put(TokenKind::sign, is_block ? "{%" : "{{");
    const std::string_view closing = is_block ? "%}" : "}}";
    const std::size_t first = tokens_.size();
    for (int depth = 0;;) {  // depth of braces: an object's "}" does not end a tag
      if (tokens_.size() - first > kMaxTagTokens) fail("a tag of more than 256 tokens");
      skip_space();
      if (at_ == text_.size()) fail("an unclosed tag");
      const char c = text_[at_];
      const bool controlled = (c == '-' || (c == '+' && is_block)) && rest().substr(1).starts_with(closing);
      if (depth == 0 && (controlled || rest().starts_with(closing))) {
        put(TokenKind::sign, std::string(closing));
        at_ += controlled ? 3 : 2;
        return behind(controlled ? c : '\0', is_block);
      }
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      word(c);
    }
  }

  void behind(char control, bool is_block) {
    is_line_start_ = control != '-' && control != '+' && is_block && rest().starts_with('\n');
    if (control == '-') skip_space();
    else if (is_line_start_) ++at_;
  }

  void word(char c) {
    const std::size_t begin = at_;
    if (c == '\'' || c == '"') return string(c);
    if (is_name(c)) {
      while (at_ < text_.size() && is_name(text_[at_])) ++at_;
      std::string text = text_.substr(begin, at_ - begin);
      const bool is_integer = std::ranges::all_of(text, is_digit) && text.size() <= 9 && !rest().starts_with('.');
      if (text.size() > 1 && c == '0' && text.find_first_not_of('0') != std::string::npos)
        fail("a number that begins with 0");
      if (is_digit(c) && !is_integer) fail("a number that is not an integer of at most 9 digits");
      return put(is_digit(c) ? TokenKind::number : TokenKind::name, std::move(text));
    }
    constexpr std::array<std::string_view, 24> kSigns = {"==", "!=", "<=", ">=", "//", "+", "-", "*",
                                                         "/",  "%",  "~",  "<",  ">",  "=", "(", ")",
                                                         "[",  "]",  "{",  "}",  ",",  ":", ".", "|"};
    const auto* sign = std::ranges::find_if(kSigns, [this](std::string_view s) { return rest().starts_with(s); });
    if (sign == kSigns.end()) fail("the character " + base::quoted(std::string(1, c)) + " in a tag");
    at_ += sign->size();
    put(TokenKind::sign, std::string(*sign));
  }

  void string(char quote) {
    std::string value;
    for (++at_; rest().substr(0, 1) != std::string_view(&quote, 1); ++at_) {
      const bool is_escape = rest().starts_with('\\');
      if (is_escape) ++at_;
      if (at_ >= text_.size()) fail("an unclosed string");
      constexpr std::string_view kNames = "nrt\\'\"", kCharacters = "\n\r\t\\'\"", kOthers = "01234567xuUNabfv\n";
      const char c = text_[at_];
      const std::size_t which = is_escape ? kNames.find(c) : std::string::npos;
      if (is_escape && (kOthers.find(c) != std::string_view::npos || static_cast<unsigned char>(c) >= 0x80))
        fail("an unsupported escape in a string");
      if (is_escape && which == std::string_view::npos) value += '\\';  // like Python, keeps the backslash
      value += which == std::string_view::npos ? c : kCharacters[which];
    }
    ++at_;
    put(TokenKind::string, std::move(value));
  }

  std::string text_;
  std::size_t at_ = 0, num_tags_ = 0;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> words_of(const std::string& text) { return Lexer(text).run(); }

}  // namespace qrl::data::jinja

#include <algorithm>
#include <array>
#include <string_view>

#include "base/ascii.h"
#include "base/text.h"
#include "data/jinja/jinja.h"

namespace qrl::data::jinja {

namespace {

using base::is_digit;
using base::is_space;

bool is_name_start(char c) { return base::is_letter(c) || c == '_'; }

class Lexer {
 public:
  explicit Lexer(const std::string& text) {
    // As Jinja reads a file: line ends are \n, and the last one does not count.
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

  void outside() {
    std::size_t begin = at_;
    for (;; ++begin) {
      begin = std::min(text_.find('{', begin), text_.size());
      if (begin + 1 >= text_.size()) begin = text_.size();
      if (begin == text_.size() || std::string_view("{%#").find(text_[begin + 1]) != std::string_view::npos) break;
    }
    std::string text = text_.substr(at_, begin - at_);
    at_ = begin;
    if (at_ == text_.size()) return put_text(std::move(text));
    const char kind = text_[at_ + 1];
    at_ += 2;
    const char control = at_ < text_.size() ? text_[at_] : '\0';
    if (control == '-') {
      while (!text.empty() && is_space(text.back())) text.pop_back();
    } else if (control != '+' && kind != '{') {
      strip_line_start(text);
    }
    if (control == '-' || control == '+') ++at_;
    put_text(std::move(text));
    if (kind == '#') comment();
    else tag(kind);
  }

  /// lstrip_blocks: spaces before a tag go when nothing else stands before it on its line.
  void strip_line_start(std::string& text) const {
    std::size_t end = text.size();
    while (end > 0 && text[end - 1] != '\n' && is_space(text[end - 1])) --end;
    const bool starts_line = end > 0 ? text[end - 1] == '\n' : is_line_start_;
    if (starts_line) text.resize(end);
  }

  void put_text(std::string text) {
    if (!text.empty()) tokens_.push_back({TokenKind::text, std::move(text)});
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) throw Unsupported("a comment that does not end");
    const char control = end > at_ ? text_[end - 1] : '\0';
    at_ = end + 2;
    behind(control, true);
  }

  void tag(char kind) {
    const bool is_block = kind == '%';
    tokens_.push_back({TokenKind::sign, is_block ? "{%" : "{{"});
    const std::string_view closing = is_block ? "%}" : "}}";
    const std::size_t first = tokens_.size();
    int depth = 0;  // of braces: a dict's end is no tag's
    for (;;) {
      if (tokens_.size() - first > kMaxTagTokens) throw Unsupported("a tag of more than 256 words");
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      if (at_ == text_.size()) throw Unsupported("a tag that does not end");
      const char c = text_[at_];
      const bool controlled = (c == '-' || (c == '+' && is_block)) && rest().substr(1).starts_with(closing);
      if (depth == 0 && (controlled || rest().starts_with(closing))) {
        tokens_.push_back({TokenKind::sign, std::string(closing)});
        at_ += controlled ? 3 : 2;
        return behind(controlled ? c : '\0', is_block);
      }
      if (c == '{') ++depth;
      if (c == '}') --depth;
      word(c);
    }
  }

  /// White space behind a tag: all with "-", one line end behind a block (trim_blocks).
  void behind(char control, bool is_block) {
    is_line_start_ = false;
    if (control == '-') {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    } else if (control != '+' && is_block && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      is_line_start_ = true;
    }
  }

  void word(char c) {
    const std::size_t begin = at_;
    if (c == '\'' || c == '"') return string(c);
    if (is_name_start(c)) {
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
      tokens_.push_back({TokenKind::name, text_.substr(begin, at_ - begin)});
    } else if (is_digit(c)) {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      const bool is_more = at_ < text_.size() && (is_name_start(text_[at_]) || text_[at_] == '.');
      if (is_more || at_ - begin > 9) throw Unsupported("a number that is no small integer");
      tokens_.push_back({TokenKind::number, text_.substr(begin, at_ - begin)});
    } else {
      constexpr std::array<std::string_view, 26> kSigns = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*",
                                                           "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                           "]",  "{",  "}",  ",",  ":",  ".",  "|", ";"};
      const auto* sign =
          std::find_if(kSigns.begin(), kSigns.end(), [this](std::string_view s) { return rest().starts_with(s); });
      if (sign == kSigns.end()) throw Unsupported("the character " + base::quoted(std::string(1, c)) + " in a tag");
      at_ += sign->size();
      tokens_.push_back({TokenKind::sign, std::string(*sign)});
    }
  }

  void string(char quote) {
    std::string value;
    for (++at_;; ++at_) {
      if (at_ == text_.size()) throw Unsupported("a string that does not end");
      char c = text_[at_];
      if (c == quote) break;
      if (c == '\\') {
        if (++at_ == text_.size()) throw Unsupported("a string that does not end");
        constexpr std::string_view kNames = "nrt\\'\"", kCharacters = "\n\r\t\\'\"", kOthers = "01234567xuUNabfv\n";
        const std::size_t which = kNames.find(text_[at_]);
        if (kOthers.find(text_[at_]) != std::string_view::npos || static_cast<unsigned char>(text_[at_]) >= 0x80)
          throw Unsupported("an escape that is not known, in a string");
        if (which == std::string_view::npos) value += '\\';  // as in Python, no escape at all
        c = which == std::string_view::npos ? text_[at_] : kCharacters[which];
      }
      value += c;
    }
    ++at_;
    tokens_.push_back({TokenKind::string, std::move(value)});
  }

  std::string text_;
  std::size_t at_ = 0;
  bool is_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> words_of(const std::string& text) { return Lexer(text).run(); }

}  // namespace qrl::data::jinja

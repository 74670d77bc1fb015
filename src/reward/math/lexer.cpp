#include "reward/math/lexer.h"

#include <algorithm>

#include "base/ascii.h"
#include "reward/math/bracket_commas.h"
#include "reward/math/contextual_signs.h"
#include "reward/math/environments.h"
#include "reward/math/numerals.h"
#include "reward/math/prose.h"
#include "reward/math/spelling.h"
#include "reward/math/texts.h"
#include "reward/math/units.h"
#include "reward/math/vocabulary.h"
#include "reward/math/written_number.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;

using T = TokenType;

bool is_word_byte(char c) noexcept { return is_letter(c) || static_cast<unsigned char>(c) >= 0x80; }

class Lexer {
 public:
  Lexer(Tokens& out, Comma comma)
      : out_(out),
        text_(out.source.data(), out.source.size()),
        comma_(comma),
        bracket_commas_(out.tokens, text_.starts_with('{')) {}

  void run() {
    while (out_.fault.empty()) {
      skip_space();
      if (at_ == text_.size()) break;
      if (out_.tokens.size() >= kMaxTokens) return fail("too many tokens");
      read_one();
    }
    push(T::end);
  }

 private:
  void fail(std::string why) { out_.fault = std::move(why); }
  char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool at(std::string_view prefix) const noexcept { return text_.substr(at_).starts_with(prefix); }
  void push(T type, char code = 0, std::string_view text = {}) {
    out_.tokens.push_back({type, code, space_, newline_, text});
    bracket_commas_.pushed(text_.substr(std::min(at_, text_.size())));
    space_ = newline_ = false;
  }
  void skip_space() noexcept {
    for (; at_ < text_.size() && is_space(text_[at_]); ++at_) {
      space_ = true;
      newline_ = newline_ || text_[at_] == '\n' || text_[at_] == '\r';
    }
  }

  /// Signs of money are no tokens: they say what all the numbers of the answer are.
  bool note_currency(std::string_view name) noexcept {
    const std::string_view unit = currency_of(name);
    if (unit.empty()) return false;
    if (out_.currency.empty()) out_.currency = unit;
    else if (out_.currency != unit) out_.currency = "several";
    space_ = true;
    return true;
  }

  void read_one() {
    const char c = peek();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return read_number();
    if (c == '\\') return read_command();
    if (is_letter(c)) return read_letters();
    ++at_;
    switch (c) {
      case '{':
        if (read_lone_sign()) return;
        arguments_.push_back(pending_ > 0 ? pending_ - 1 : 0);
        pending_ = 0;
        return push(T::open, '{');
      case '}':
        pending_ = arguments_.empty() ? 0 : arguments_.back();
        if (!arguments_.empty()) arguments_.pop_back();
        return push(T::close, '}');
      case '(':
        pending_ = 0;  // \sqrt(12)
        return push(T::open, c);
      case '[':
        return push(T::open, c);
      case ')':
      case ']':
        return push(T::close, c);
      case '/':
        return push(T::op, c, text_.substr(at_ - 1, 1));
      case '+':
      case '-':
      case '^':
      case '_':
      case '\'':
      case '%':
      case ':':
        return push(T::op, c);
      case '!':
        if (peek() == '=') {
          ++at_;
          return push(T::relation, 'n');
        }
        return push(T::op, '!');
      case '*':
        if (peek() == '*') {
          ++at_;
          return push(T::op, '^');
        }
        return push(T::op, '*');
      case '=':
        if (peek() == '=') ++at_;
        if (peek() == '>') {
          ++at_;
          return push(T::relation, 't');
        }
        return push(T::relation, '=');
      case '<':
        if (peek() == '=') {
          ++at_;
          return push(T::relation, 'l');
        }
        return push(T::relation, '<');
      case '>':
        if (peek() == '=') {
          ++at_;
          return push(T::relation, 'g');
        }
        return push(T::relation, '>');
      case '|':
        return push(T::bar);
      case ',':
      case ';':
        return push(T::separator, c);
      case '&':
        return push(T::cell);
      case '~':
        space_ = true;
        return;
      case '.':
        if (at("..")) {
          at_ += 2;
          return push(T::dots);
        }
        return;  // the end of a sentence, or \left.
      case '$':  // mathematics, or money where it stands alone before a number
        if (is_digit(peek()) && text_.find('$') == at_ - 1 && text_.find('$', at_) == std::string_view::npos)
          note_currency("$");
        return;
      default:
        if (static_cast<unsigned char>(c) >= 0x80) return read_foreign(at_ - 1);
        return fail(std::string("a character that mathematics does not use: ") +
                    (c >= ' ' ? std::string(1, c) : "control"));
    }
  }

  /// A sign in braces of its own, which only set its spacing: 1{:}2, {-}7. Not an exponent or index.
  bool read_lone_sign() {
    const bool script = !out_.tokens.empty() && out_.tokens.back().type == T::op &&
                        (out_.tokens.back().code == '^' || out_.tokens.back().code == '_');
    if (script || pending_ > 0 || peek(1) != '}' || std::string_view(":-+=<>,").find(peek()) == std::string_view::npos)
      return false;
    read_one();
    ++at_;
    return true;
  }

  /// A word in other letters than a to z.
  void read_foreign(std::size_t begin) {
    while (at_ < text_.size() && is_word_byte(text_[at_])) ++at_;
    push(T::word, 0, text_.substr(begin, at_ - begin));
  }

  // ---- numbers

  void read_number() {
    if (pending_ > 0 && is_digit(peek())) {
      --pending_;
      // \frac12: an argument without braces is one digit; of a root it is all of them, whatever LaTeX shows.
      const bool of_root =
          !out_.tokens.empty() && (out_.tokens.back().type == T::root || out_.tokens.back().code == '[');
      const std::size_t size = of_root ? end_of_decimal(text_, at_) - at_ : 1;
      push(T::number, 0, text_.substr(at_, size));
      at_ += size;
      return;
    }
    const WrittenNumber number = scan_number(out_.source, at_, comma_);
    out_.ambiguous_comma = out_.ambiguous_comma || number.ambiguous_comma;
    push(T::number, 0, text_.substr(at_, number.size));
    if (number.first_group > 0) bracket_commas_.pushed_thousands(number.first_group);
    at_ = number.end;
  }

  // ---- letters

  bool after_value() const noexcept {
    if (out_.tokens.empty()) return false;
    const Token& last = out_.tokens.back();
    return last.type == T::number || last.type == T::close || last.type == T::symbol ||
           (last.type == T::op && (last.code == '%' || last.code == 'd'));
  }

  bool after_number() const noexcept { return !out_.tokens.empty() && out_.tokens.back().type == T::number; }

  void read_letters() {
    const std::size_t begin = at_;
    bool foreign = false;
    for (; at_ < text_.size() && is_word_byte(text_[at_]); ++at_) foreign = foreign || !is_letter(text_[at_]);
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (foreign) return push(T::word, 0, word);
    if (read_numeral(begin) || read_minus(begin)) return;
    if (word.size() == 1 && read_half_of_day(begin)) return;
    if (word.size() == 1) {
      if (pending_ > 0) --pending_;
      return push_letter(word);
    }
    if (pending_ > 0) {  // \frac ab: one letter
      --pending_;
      at_ = begin + 1;
      return push_letter(word.substr(0, 1));
    }
    if (const auto meaning = word_meaning(word)) return push(meaning->type, meaning->code, meaning->text);
    if (word.size() <= 3 && word[0] <= 'Z' && note_currency(word)) return;
    const bool ordinal = !space_ && after_value() && (word == "st" || word == "nd" || word == "rd" || word == "th");
    const bool unit = ordinal || (after_value() && unit_of(word).dimension != 0);
    if (unit || is_word(word)) return push(T::word, 0, word);
    read_run(begin, word);
  }

  /// A number in words, alone or in front of what is counted. Its digits take the place of its letters, which are more.
  bool read_numeral(std::size_t begin) {
    const auto numeral = after_value() && !after_number() ? std::nullopt : numeral_at(text_.substr(begin));
    if (!numeral || (begin > 0 && text_[begin - 1] == '-') || (after_number() && numeral->denominator > 1))
      return false;
    at_ = begin + numeral->size;
    std::size_t end = begin;
    const auto write = [&](std::string_view text, T type, char code) {
      std::copy(text.begin(), text.end(), out_.source.begin() + static_cast<std::ptrdiff_t>(end));
      push(type, code, text_.substr(end, text.size()));
      end += text.size();
    };
    write(std::to_string(numeral->value), T::number, kInWords);
    if (numeral->denominator > 1) {
      write("/", T::op, '/');
      write(std::to_string(numeral->denominator), T::number, kInWords);
    }
    return true;
  }

  /// "minus 12", "negative 12", "minus twelve".
  bool read_minus(std::size_t begin) {
    if (!begins_with_minus(text_.substr(begin))) return false;
    push(T::op, '-');
    return true;
  }

  /// a.m. and p.m. with their points.
  bool read_half_of_day(std::size_t begin) {
    const bool half = (text_[begin] | 32) == 'a' || (text_[begin] | 32) == 'p';
    if (!half || peek() != '.' || (peek(1) | 32) != 'm' || is_letter(peek(2)) || !after_value()) return false;
    at_ += 2;
    push(T::word, 0, text_.substr(begin, 3));
    return true;
  }

  /// A product of letters, perhaps with a function or a constant at either end: xsin, pir.
  void read_run(std::size_t begin, std::string_view word) {
    for (std::size_t k = 0; k < word.size(); ++k) {
      if (const auto meaning = word_meaning(word.substr(k));
          meaning && (meaning->type == T::function || meaning->type == T::constant || meaning->type == T::root)) {
        push(meaning->type, meaning->code, meaning->text);
        at_ = begin + word.size();
        return;
      }
      push_letter(word.substr(k, 1));
    }
  }

  void push_letter(std::string_view letter) {
    if (letter == "e") return push(T::constant, 0, "e");
    if (letter == "i") return push(T::constant, 0, "i");
    push(T::symbol, 0, letter);
  }

  // ---- commands

  void read_command() {
    const std::size_t begin = at_++;
    const char c = peek();
    if (!is_letter(c)) return read_control_symbol(c);
    while (is_letter(peek())) ++at_;
    std::string_view name = text_.substr(begin + 1, at_ - begin - 1);
    if (peek() == '*') ++at_;
    while (!name.empty()) {  // \quadx is \quad x: the longest beginning that is known
      if (const Wrapper wrapper = wrapper_of(name); wrapper != Wrapper::none) return read_wrapped(wrapper, begin);
      if (is_unit_sign(name)) return push(T::word, 't', name);
      if (name == "quad" || name == "qquad") newline_ = true;
      if (const auto meaning = command_meaning(name)) return push_meaning(*meaning);
      if (note_currency(name)) return;
      if (name.size() == 1) break;
      name.remove_suffix(1);
      at_ = begin + 1 + name.size();
    }
    while (is_letter(peek())) ++at_;
    fail("a command that is not known: " + std::string(text_.substr(begin, std::min<std::size_t>(at_ - begin, 40))));
  }

  /// \Omega alone and \mu before a unit, behind a number: 10\,\Omega, 10\,\mu\text{m}.
  bool is_unit_sign(std::string_view name) const noexcept {
    if ((name != "Omega" && name != "mu") || out_.tokens.empty() || out_.tokens.back().type != T::number) return false;
    const std::string_view rest = trimmed(text_.substr(at_));
    if (name == "Omega") return rest.empty() || rest == "$" || rest == ".";
    return rest.starts_with("\\text{") || rest.starts_with("\\mathrm{");
  }

  void push_meaning(const Meaning& meaning) {
    switch (meaning.type) {
      case T::end:
        space_ = true;
        return;
      case T::fraction:
        pending_ = 2;
        break;
      case T::root:
        pending_ = 1;
        break;
      case T::symbol:
      case T::constant:
        if (pending_ > 0) --pending_;
        break;
      case T::begin:
      case T::finish:
        return read_environment(meaning.type);
      default:
        break;
    }
    push(meaning.type, meaning.code, meaning.text);
  }

  void read_control_symbol(char c) {
    ++at_;
    switch (c) {
      case '{':
        return push(T::open, 'S');
      case '}':
        return push(T::close, 'S');
      case '%':
        return push(T::op, '%');
      case '|':
        return push(T::bar);
      case '$':
        note_currency("$");
        return;
      case '(':
      case ')':
      case '[':
      case ']':
        return;
      case '\\':
        if (depth_ > 0) {
          if (peek() == '[') skip_bracketed();  // \\[2pt]
          return push(T::newline);
        }
        if (is_letter(peek()) && wrapper_or_command_follows()) {  // \\frac: escaped once too often
          --at_;
          return;
        }
        return push(T::separator, ',');
      case ',':
      case ';':
      case ':':
      case '!':
      case '>':
      case ' ':
      case '\n':
      case '\t':
      case '/':
        space_ = true;
        return;
      case '_':
        return push(T::op, '_');
      case '&':
        return push(T::separator, '&');
      default:
        return fail("a command that is not known");
    }
  }
  bool wrapper_or_command_follows() const noexcept {
    std::size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string_view name = text_.substr(at_, end - at_);
    return wrapper_of(name) != Wrapper::none || command_meaning(name).has_value();
  }
  void skip_bracketed() noexcept {
    while (at_ < text_.size() && text_[at_] != ']') ++at_;
    if (at_ < text_.size()) ++at_;
  }

  /// The content of the braces that follow; nothing when they do not. Leaves what is behind them to be read.
  std::optional<std::string_view> take_braced() {
    while (is_space(peek())) ++at_;
    if (peek() != '{') return std::nullopt;
    int open = 0;
    for (std::size_t i = at_; i < text_.size(); ++i) {
      if (text_[i] == '{') ++open;
      if (text_[i] == '}' && --open == 0) {
        const std::string_view content = text_.substr(at_ + 1, i - at_ - 1);
        at_ = i + 1;
        return content;
      }
    }
    return std::nullopt;
  }

  void read_environment(T type) {
    const auto name = take_braced();
    if (!name) return fail("an environment without a name");
    depth_ += type == T::begin ? 1 : -1;
    const bool columns = *name == "array" || *name == "tabular" || name->starts_with("alignat") || *name == "alignedat";
    if (type == T::begin) {
      for (const std::string_view position : {"[t]", "[c]", "[b]"}) at_ += at(position) ? position.size() : 0;
      if (columns) take_braced();
    }
    push(type, 0, *name);
  }

  void read_wrapped(Wrapper wrapper, std::size_t command) {
    const std::size_t begin = at_;
    auto content = take_braced();
    if (!content) {
      if (wrapper == Wrapper::plain || wrapper == Wrapper::roman) return;  // \mathbf x
      if (wrapper == Wrapper::named) {                                     // \mathbb R
        while (is_space(peek())) ++at_;
        if (!is_letter(peek())) return fail("a command without its argument");
        return push(T::symbol, 0, text_.substr(command, ++at_ - command));
      }
      return wrapper == Wrapper::dropped ? void() : fail("a command without its argument");
    }
    *content = trimmed(*content);
    switch (wrapper) {
      case Wrapper::dropped:
        return;
      case Wrapper::colored:
        return;  // what it colors follows in braces of its own
      case Wrapper::named:
        return push(T::symbol, 0, text_.substr(command, at_ - command));
      case Wrapper::operation:
        return push_name(*content);
      case Wrapper::roman: {
        const bool letters = std::all_of(content->begin(), content->end(), is_letter);
        if (is_unit_here(*content, command)) return push_words(*content);
        if (!letters && after_number() && names_unit(*content)) return push_words(*content);  // \mathrm{m/s}
        if (letters && content->size() > 1) {
          if (const auto meaning = word_meaning(*content)) return push_meaning(*meaning);
          return push_words(*content);
        }
        if (content->find('~') != std::string_view::npos || content->find("\\ ") != std::string_view::npos) {
          return push_words(*content);
        }
        at_ = begin;
        return;
      }
      case Wrapper::text:
        if (is_digit(peek()) && ends_with_minus(text_.substr(0, at_ - 1))) return push(T::op, '-');
        if (after_number() && is_bracketed_numeral(*content)) {  // 5\text{ (five)}
          hide_braces(begin);
          at_ = begin;
          return;
        }
        if (is_equation_of_letters(*content)) {
          at_ = begin;
          return;
        }
        if (peek() == '^' && begins_with_number(*content) && is_letter(content->back())) hide_braces(begin);
        if (const auto meaning = word_meaning(*content);  // \text{lcm}(3,4)
            meaning && meaning->type == T::function && !after_value() && (peek() == '(' || at("\\left(")))
          return push_meaning(*meaning);
        if (begins_with_number(*content) || is_list_of_letters(*content) || is_modulus(*content) ||
            begins_with_minus(*content) || (!after_value() && (numeral_at(*content) || is_numeric_tuple(*content)))) {
          at_ = begin;
          return;
        }
        return push_words(*content);
      default:
        at_ = begin;
    }
  }

  /// \text{12 in}^2 is 12 in^2: the braces from `begin` to what was read are spaces.
  void hide_braces(std::size_t begin) {
    out_.source[text_.find('{', begin)] = ' ';
    out_.source[at_ - 1] = ' ';
  }

  /// Upright letters that are a unit behind a value, a unit or a unit's sign: 5\mathrm{m}, \mathrm{km} / \mathrm{h}.
  /// One letter behind another value than digits is one only behind a spacing command, too: \frac{3}{2}\,\mathrm{m}.
  bool is_unit_here(std::string_view content, std::size_t command) const noexcept {
    if (out_.tokens.empty() || pending_ > 0 || peek() == '(' || !is_unit_product(content)) return false;
    const Token& last = out_.tokens.back();
    const bool known = unit_of(content).dimension != 0;
    const bool sign = last.type == T::op && (last.code == '/' || last.code == '*') && out_.tokens.size() > 1;
    if (const Token& before = sign ? out_.tokens[out_.tokens.size() - 2] : last; sign || before.type == T::word)
      return before.type == T::word && (known || is_unit_product(before.text));
    const bool constant = last.type == T::constant && last.text == "pi";
    if (last.type != T::number && last.type != T::close && !constant) return false;
    return content.size() > 1 || (known && last.type == T::number) || ends_with_spacing(text_.substr(0, command));
  }

  /// \text{12 apples}; where nothing stands before it \text{-5} and \text{\$5}, too.
  bool begins_with_number(std::string_view content) const noexcept {
    if (!content.empty() && is_digit(content.front())) return true;
    if (content.starts_with('-') || content.starts_with('+')) content.remove_prefix(1);
    if (content.starts_with("\\$")) content.remove_prefix(2);
    return !content.empty() && is_digit(content.front()) && !after_value();
  }

  void push_name(std::string_view name) {
    if (const auto meaning = word_meaning(name)) return push_meaning(*meaning);
    push(T::function, 0, name);
  }

  /// \text{…}: a separator, a number or words. Mathematics in it ($…$) is read as such.
  void push_words(std::string_view content) {
    while (!content.empty() && (content.front() == '~' || is_space(content.front()))) content.remove_prefix(1);
    while (!content.empty() && (content.back() == '.' || is_space(content.back()))) content.remove_suffix(1);
    const bool comma = content.starts_with(',');
    if (comma) content = trimmed(content.substr(1));
    if (content.empty()) return comma ? push(T::separator, ',') : void(space_ = true);
    if (content == "or") return push(T::separator, '|');
    if (content == "and" || content == "," || content == ";") return push(T::separator, '&');
    if (comma) push(T::separator, ',');
    if (content == ":") return push(T::op, ':');
    if (content == "mod" || content == "modulo") return push(T::op, 'p');
    if (content == "(mod") {  // \text{ (mod }7)
      push(T::open, '(');
      return push(T::op, 'p');
    }
    if (content == "%" || content == "\\%" || content == "percent") return push(T::op, '%');
    if (content == "e" || content == "i") return push_letter(content);
    if (content == "infinity") return push(T::constant, 0, content);
    if (is_hedge(content)) return push(T::relation, 'a');
    if (says_is(content) && begins_value(text_.substr(at_)) && !denies(content)) return push(T::relation, '=');
    if (content.starts_with('\\') && note_currency(content.substr(1))) return;
    if (content == "Rs" && note_currency(content)) return;
    const std::string_view last = content.substr(content.rfind(' ') + 1);  // 2\text{ apples and }3
    const bool joins = last != content && (last == "and" || last == "or");
    push(T::word, 't', joins ? trimmed(content.substr(0, content.size() - last.size())) : content);
    if (joins) push(T::separator, last == "or" ? '|' : '&');
  }

  Tokens& out_;
  std::string_view text_;
  Comma comma_;
  BracketCommas bracket_commas_;
  std::size_t at_ = 0;
  bool space_ = false, newline_ = false;
  int depth_ = 0;    ///< environments open
  int pending_ = 0;  ///< arguments that a command still takes
  std::vector<int> arguments_;
};

}  // namespace

Tokens tokenize(std::string_view text, Comma comma) {
  Tokens tokens;
  if (text.size() > kMaxAnswer_bytes) {
    tokens.fault = "too long";
    tokens.tokens.push_back({});
    return tokens;
  }
  const std::string spelled = spelled_in_ascii(text);
  tokens.source.assign(spelled.begin(), spelled.end());
  tokens.tokens.reserve(32);
  Lexer(tokens, comma).run();
  if (!tokens.fault.empty()) return tokens;
  make_rows_cases(tokens.tokens);
  make_contextual_signs_round(tokens.tokens);
  make_builder_braces_shown(tokens.tokens);
  make_words_ratios(tokens.tokens);
  if (!drop_numbers_repeated(tokens.tokens)) tokens.fault = "a number and another one in words";
  make_letters_operators(tokens.tokens);
  make_hedges_relations(tokens.tokens);
  make_scripts_binomials(tokens.tokens);
  make_dotted_decimals_repeat(tokens.tokens, tokens.source);
  separate_equations(tokens.tokens);
  return tokens;
}

}  // namespace qrl::reward::math

// Owns the words in and around answers: LaTeX commands, functions, units (tables.cpp).
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ascii.h"

namespace qrl::reward::math {

inline bool has(std::string_view characters, char c) noexcept { return characters.find(c) != std::string_view::npos; }
inline constexpr int kMaxRadix = 36;
/// Returns the value of a digit or letter in a base above ten; the case of letters does not count.
constexpr int digit_value(char c) noexcept {
  return base::is_digit(c) ? c - '0' : base::is_letter(c) ? base::lower(c) - 'a' + 10 : kMaxRadix;
}
inline std::string_view letters_of(std::string_view text) noexcept {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, base::is_letter) - text.begin()));
}
inline std::string in_lower_case(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), base::lower);
  return word;
}
/// Iterates over a text's words (runs of letters) that are no names of LaTeX commands.
struct Words {
  std::string_view text;
  std::size_t begin = 0, end = 0;
  std::string word = {};  ///< in lower case
  bool next();
};

enum class TokenType : unsigned char {
  end,
  /// Text: digits with at most one '.', repeating digits in (), an exponent after 'e'. Code: 'w' for number words.
  number,
  symbol,    ///< a variable; text: its name ("x", "theta", "\mathbb{R}"); code: 'r' upright, 't' within text
  constant,  ///< π, e, i, ∞ or ∅; their codes: 'p', 'e', 'i', 'o', '0'
  function,  ///< text: name without backslash; code: its Law
  word,      ///< letters that are no product; code: 't' within \text{…}, 'r' upright
  relation,  ///< code: = < > l(≤) g(≥) n(≠) a(≈) c(≡) e(∈) t(→), or a letter of an unknown relation (tables.cpp)
  /// Code: + - * / ^ _ ! ' P(±) M(∓) % d(degree) : m(mod) p(mod, applied to all before) U(∪) N(∩) D(∖) o(\over)
  /// h(\choose), or a letter of an unknown operation (tables.cpp).
  op,
  open,       ///< code: ( [ { S(\{) F(floor) C(ceiling)
  close,      ///< code: ) ] } S F C
  bar,        ///< |; code: m for \mid
  separator,  ///< code: ',' ';' '&' (and) '|' (or)
  fraction,   ///< code: / or b(binomial)
  root,
  begin,  ///< start of an environment; text: its name
  finish,
  cell,     ///< & in an environment
  newline,  ///< \\ in an environment
  dots,
  money,    ///< a currency sign; text: its unit
  wrapper,  ///< a command that lays out its argument; tables.cpp lists the codes
  layout,   ///< text without meaning; code: 'n' for a line end
};

enum class Law : char {
  none,
  sin,
  cos,
  tan,
  cot,
  sec,
  csc,
  arcsin,
  arccos,
  arctan,
  sinh,
  cosh,
  tanh,
  exp,
  cbrt,
  abs,
  floor,
  ceil,
  ln,
  lg,
  divisor,
  multiple,
  max,
  min,
  big,  ///< a sum, product, limit or integral
};

/// Classes of words and signs, by their meaning for the value next to them.
enum class WordClass : unsigned char {
  command,      ///< a LaTeX command, without its backslash
  plain,        ///< a word in a formula
  name,         ///< both a command and plain
  sign,         ///< characters in a formula
  unit,         ///< units; code: dimension; value: factor
  number,       ///< words; code: n 0 to 90, h 100, p power of 1000, / "third", s "thirds", a article, & "and", o "of"
  thousands,    ///< thousands separators in digits
  dots,         ///< signs after a decimal: more digits follow
  period,       ///< signs before repeating digits
  shown,        ///< short words that are no product of letters
  leading,      ///< words before a value, ignored
  temperature,  ///< words after a degree sign; text: the unit
  verb,         ///< a verb before a value
  closing,      ///< words that end the clause of a value
  refusal,      ///< words after which a number is no answer
  changing,     ///< words after a value that change or negate it
  turning,      ///< words after which a value is another quantity: "reciprocal"
  saying,       ///< words after a value that both answers must share: "loss"
  hedge,        ///< words for "approximately"
  reals,        ///< phrases for all real numbers
  nothing,      ///< phrases for "no solution"
  condition,    ///< words before a condition
  shortened,    ///< an abbreviation: its full stop ends no sentence
  concluding,   ///< words that begin a conclusion if capitalized
  denial,       ///< words that deny the next clause: "doubt"
  claim,        ///< words between a denial and "the answer is"
  counting,     ///< words after which a "!" in the same line may be a factorial
  verdict,      ///< an answer that a reason may follow
  calling,      ///< functions whose bracket holds an argument
  may_call,     ///< function names, if their bracket holds one name or number
  noun,         ///< nouns such as "answer" that introduce an answer
  denied,       ///< words that deny the answer in the box after them: "cannot be"
  joining,      ///< text between boxes that form a list
  silent,       ///< layout before a label, ignored
  about,        ///< words between "answer" and the question
  says,         ///< words between "answer" and its value
  dash,         ///< dashes instead of `says`
  tag,          ///< a tag before an answer, ignored
  operand,      ///< signs and words that make the next formula an operand
  choice,       ///< words before the letter of a choice: "option"
  article,      ///< articles before a noun that is an answer
  label,        ///< text before the answer in a box: "answer:"
  turn,         ///< chat tokens that end the response or begin another turn
  count
};

struct Meaning {
  TokenType type = TokenType::layout;
  char code = 0;
  std::string_view text;  ///< set only by "@c=text" (Row)
  long double value = 0;
};
/// Tabs separate a row's names; a row without tabs uses spaces. "@c" sets the code of the following names, and
/// "@c=text" also their text.
struct Row {
  WordClass of;
  TokenType type;
  std::string_view names;
  char code = 0;
  long double value = 0, step = 0;  ///< the first name's value, and the increment per name
};

struct Fault {
  static const std::string_view kOpenBracket, kUnfitWords, kNoOperationBetween, kOperandMissing, kUnlikeRows;
};

std::span<const Row> default_rows() noexcept;
/// Returns pairs of delimiters that do not change an answer.
std::span<const std::pair<std::string_view, std::string_view>> shells() noexcept;
std::span<const std::pair<std::string_view, std::string_view>> characters() noexcept;

constexpr bool is_choice(char c) noexcept { return c >= 'A' && c <= 'J'; }

class Vocabulary {
 public:
  explicit Vocabulary(std::span<const Row> rows);
  const Meaning* find(WordClass of, std::string_view name) const noexcept;
  const Meaning* command(std::string_view name) const noexcept { return find(WordClass::command, name); }
  const Meaning* word(std::string_view word) const noexcept { return find(WordClass::plain, word); }
  bool is(WordClass of, std::string_view name) const noexcept { return find(of, name) != nullptr; }
  /// Returns the unit that `word` denotes, or code 0. `word` is a unit's name (lower case, singular or plural) or its
  /// symbol (usual case).
  Meaning unit(std::string_view word) const noexcept;
  bool any(WordClass of, std::string_view text) const {
    for (Words words{text}; words.next();)
      if (is(of, words.word)) return true;
    return false;
  }
  /// Removes the class's longest matching word or phrase from the text's start, ignoring case. Returns whether one
  /// matched.
  bool take(WordClass of, std::string_view& text) const noexcept;
  template <class Take>
  void for_each(WordClass of, const Take& take) const {
    for (const auto& [name, meaning] : classes_[static_cast<std::size_t>(of)]) take(name);
  }
  bool ends(WordClass of, std::string_view text) const noexcept {
    bool found = false;
    for_each(of, [&](std::string_view name) { found = found || text.ends_with(name); });
    return found;
  }
  bool is_word(std::string_view letters) const noexcept {
    return letters.size() > 3 || (letters.size() > 1 && is(WordClass::shown, in_lower_case(letters)));
  }

 private:
  std::vector<std::unordered_map<std::string_view, Meaning>> classes_;
};

const Vocabulary& default_vocabulary();

}  // namespace qrl::reward::math

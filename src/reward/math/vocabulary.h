// Owns the words that answers are written in: LaTeX commands, functions, units, and the words around an answer. Rows of
// tables only (tables.cpp); every stage that needs them takes a Vocabulary as an argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ascii.h"

namespace qrl::reward::math {

inline bool has(std::string_view characters, char c) noexcept { return characters.find(c) != std::string_view::npos; }
/// The letters that a text begins with.
inline std::string_view letters_of(std::string_view text) noexcept {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, base::is_letter) - text.begin()));
}
inline std::string in_lower_case(std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), base::lower);
  return word;
}
/// The words of a text, one after another: for (Words words{text}; words.next();). The name of a LaTeX command is none.
struct Words {
  std::string_view text;
  std::size_t begin = 0, end = 0;
  std::string word = {};  ///< in lower case
  bool next();
};

enum class TokenType : unsigned char {
  end,
  number,    ///< text: digits with at most one '.', repeating ones in (), an exponent after 'e'; code: 'w' in words
  symbol,    ///< a variable; text: its name ("x", "theta", "\mathbb{R}"); code: 'r' of upright letters, 't' of a text's
  constant,  ///< code: p(π) e i o(∞) 0(∅)
  function,  ///< text: name without backslash; code: its Law
  word,      ///< letters that are no product; code: 't' within \text{…}, 'r' upright
  relation,  ///< code: = < > l(≤) g(≥) n(≠) a(≈) c(≡) e(∈) t(→), or a letter for one without a law here (vocabulary.h)
  op,    ///< code: + - * / ^ _ ! ' P(±) M(∓) % d(degree) : m(mod) p(mod of all before) U(∪) N(∩) D(∖) o(\over)
         ///< h(\choose), others without a law
  open,  ///< code: ( [ { S(\{) F(floor) C(ceiling)
  close,      ///< code: ) ] } S F C
  bar,        ///< |; code: m of \mid
  separator,  ///< code: , ; & (and) | (or)
  fraction,   ///< code: / or b(binomial)
  root,
  begin,  ///< of an environment; text: its name
  finish,
  cell,     ///< & in an environment
  newline,  ///< \\ in an environment
  dots,
  money,    ///< a sign of money; text: its unit
  wrapper,  ///< a command with an argument that it only lays out; code: see Wrapper's letters in tables.cpp
  layout,   ///< nothing; code: n where a line ends
};

/// Functions with a law here, and those that are written in a way of their own.
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

/// Classes of names, words, signs and phrases, the only ones that any stage asks for.
enum class WordClass : unsigned char {
  command,      ///< of LaTeX, without its backslash
  plain,        ///< a word in a formula
  name,         ///< both
  sign,         ///< characters in a formula
  unit,         ///< code: its dimension; value: its factor
  number,       ///< code: n up to ninety, h hundred, p a power of thousand, / a part, s parts, a article, & and, o of
  thousands,    ///< between thousands in digits
  dots,         ///< behind a decimal that goes on
  period,       ///< before digits that repeat
  shown,        ///< short words that are no product of letters
  leading,      ///< before a value, without effect on it
  temperature,  ///< behind a degree sign; text: the unit
  verb,         ///< says that what follows is the value
  closing,      ///< ends the clause of a value
  refusal,      ///< before a value: it is denied, an operand, a bound or a name
  changing,     ///< behind a value: it is another one, or none
  turning,      ///< in the name of a value: it is not the value itself
  saying,       ///< behind a value: part of the statement, which both sides must have
  hedge,        ///< approximately
  reals,        ///< words for all real numbers
  nothing,      ///< words for no solution
  condition,    ///< before a condition
  shortened,    ///< its full stop ends no sentence
  concluding,   ///< with a capital: begins a conclusion
  denial,       ///< before "that the answer is": denies it
  claim,        ///< between a denial and "the answer is"
  counting,     ///< in a line: a mark behind its number may be a factorial
  verdict,      ///< an answer that a reason may follow
  calling,      ///< names of functions: a bracket behind them holds an argument
  may_call,     ///< letters of functions where the bracket holds one name or number
  noun,         ///< with a verb or colon behind it: what follows to the end of its clause is the answer
  denied,       ///< before a box: it is no answer
  joining,      ///< between boxes: they are one list
  silent,       ///< between boxes, without effect
  about,        ///< behind "answer": what it is an answer to
  says,         ///< behind "answer": what follows is it
  dash,         ///< the same, where no verb stands there
  tag,          ///< before an answer
  operand,      ///< before a formula: it is a part of another
  choice,       ///< before the letter of a choice
  article,      ///< before a noun that is an answer
  label,        ///< in a box before its answer
  turn,         ///< tokens of a chat that end the response or begin another turn
  count
};

struct Meaning {
  TokenType type = TokenType::layout;
  char code = 0;
  std::string_view text;  ///< only where its row gives one
  long double value = 0;
};
/// Names separated by tabs where there is one, else by spaces. "@c" gives those behind it the code c, "@c=text" a text
/// as well.
struct Row {
  WordClass of;
  TokenType type;
  std::string_view names;
  char code = 0;
  long double value = 0, step = 0;  ///< of the first name, and from each to the next
};

/// Why an answer is not in the grammar.
struct Fault {
  static const std::string_view kOpenBracket, kUnfitWords, kNoOperationBetween, kOperandMissing, kUnlikeRows;
};

/// The rows that qrl-train judges by.
std::span<const Row> default_rows() noexcept;
/// What opens and closes around an answer without effect.
std::span<const std::pair<std::string_view, std::string_view>> shells() noexcept;
/// Characters of Unicode, and what each of them stands for.
std::span<const std::pair<std::string_view, std::string_view>> characters() noexcept;

constexpr bool is_choice(char c) noexcept { return c >= 'A' && c <= 'J'; }

class Vocabulary {
 public:
  explicit Vocabulary(std::span<const Row> rows);
  /// Null: the class has no such name.
  const Meaning* find(WordClass of, std::string_view name) const noexcept;
  const Meaning* command(std::string_view name) const noexcept { return find(WordClass::command, name); }
  const Meaning* word(std::string_view word) const noexcept { return find(WordClass::plain, word); }
  bool is(WordClass of, std::string_view name) const noexcept { return find(of, name) != nullptr; }
  /// Of a word in the singular or plural, in lower case or as a symbol is written; code 0: it is no unit.
  Meaning unit(std::string_view word) const noexcept;
  /// Whether one of a text's words is.
  bool any(WordClass of, std::string_view text) const {
    for (Words words{text}; words.next();)
      if (is(of, words.word)) return true;
    return false;
  }
  /// Takes a word or phrase of the class, in lower case there, that the text begins with and that no letter follows.
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
  /// Whether letters in a row are a word and no product.
  bool is_word(std::string_view letters) const noexcept {
    return letters.size() > 3 || (letters.size() > 1 && is(WordClass::shown, in_lower_case(letters)));
  }

 private:
  std::vector<std::unordered_map<std::string_view, Meaning>> classes_;
};

const Vocabulary& default_vocabulary();

}  // namespace qrl::reward::math

// Owns the words that answers are written in: LaTeX commands, functions, units, and the words around an answer. Rows of
// tables only (tables.cpp); every stage that needs them takes a Vocabulary as an argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace qrl::reward::math {

/// Calls `take` with each of the names that spaces or another character separate.
template <class Take>
void for_each_name(std::string_view names, const Take& take, char between = ' ') {
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(between, at), names.size());
    if (end > at) take(names.substr(at, end - at));
    at = end + 1;
  }
}
/// The letters of a text from `at` in lower case; `at` is behind them then.
std::string lower_word(std::string_view text, std::size_t& at);
/// Calls `take` with each word of a text in lower case. The name of a LaTeX command is none.
template <class Take>
void for_each_word(std::string_view text, const Take& take) {
  for (std::size_t k = 0; k < text.size();) {
    const bool command = text[k] == '\\';
    k += command ? 1 : 0;
    const std::string word = lower_word(text, k);
    if (!word.empty() && !command) take(word);
    k += word.empty() && !command ? 1 : 0;
  }
}

enum class TokenType : unsigned char {
  end,
  number,    ///< text: digits with at most one '.', repeating ones in (), an exponent after 'e'; code: 'w' in words
  symbol,    ///< a variable; text: its name ("x", "\theta", "\mathbb{R}"); code: 'r' of upright letters
  constant,  ///< code: p(π) e i o(∞) 0(∅)
  function,  ///< text: name without backslash; code: its Law
  word,      ///< letters that are no product; code: 't' within \text{…}; text: as written
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
  layout,   ///< nothing; code: n where a line ends, . where a full stop behind it belongs to it
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
  big,    ///< a sum, product, limit or integral
  stack,  ///< of two arguments in braces
};

struct Meaning {
  TokenType type = TokenType::layout;
  char code = 0;
  std::string_view text;
};

/// Names separated by spaces that mean the same; `text` empty: each means itself. `where`: of commands (c), of plain
/// words (w), of both (b), of signs (s).
struct NameRow {
  char where;
  TokenType type;
  char code;
  std::string_view text, names;
};

/// What a unit measures and how many of its base unit it is; dimension 0: not known, ? : a unit without a factor.
struct Unit {
  char dimension = 0;
  long double factor = 1;
};
struct UnitRow {
  char dimension;
  long double factor;
  std::string_view names;
};

/// Classes of English words, the only ones that any stage asks for.
enum class WordClass : unsigned char {
  shown,       ///< short words that are no product of letters
  leading,     ///< before a value, without effect on it
  verb,        ///< says that what follows is the value
  closing,     ///< ends the clause of a value
  refusal,     ///< before a value: it is denied, an operand, a bound or a name
  changing,    ///< behind a value: it is another one, or none
  turning,     ///< in the name of a value: it is not the value itself
  saying,      ///< behind a value: part of the statement, which both sides must have
  hedge,       ///< approximately
  reals,       ///< words for all real numbers
  nothing,     ///< words for no solution
  condition,   ///< before a condition
  shortened,   ///< its full stop ends no sentence
  concluding,  ///< with a capital: begins a conclusion
  denial,      ///< before "that the answer is": denies it
  claim,       ///< between a denial and "the answer is"
  over,        ///< before a number: it is an operand
  joint,       ///< between two numbers: the last alone is no answer
  counting,    ///< in a line: a mark behind its number may be a factorial
  operation,   ///< the last word of a line: what follows is an operand
  verdict,     ///< an answer that a reason may follow
  ranging,     ///< between the sides of a ratio
  calling,     ///< names of functions: a bracket behind them holds an argument
  may_call,    ///< letters of functions where the bracket holds one name or number
  count_
};
struct WordRow {
  WordClass of;
  std::string_view words;  ///< separated by spaces; '_' is a space within one
};

/// Classes of phrases and signs that a text begins or ends with.
enum class Phrase : unsigned char {
  denied,    ///< before a box: it is no answer
  joining,   ///< between boxes: they are one list
  silent,    ///< between boxes, without effect
  about,     ///< behind "answer": what it is an answer to
  verb,      ///< behind "answer": what follows is it
  sign,      ///< the same
  dash,      ///< the same, where no verb stands there
  tag,       ///< before an answer
  operand,   ///< before a formula: it is a part of another
  choice,    ///< before the letter of a choice
  article,   ///< before a noun that is an answer
  negation,  ///< commands that negate a text
  count_
};
struct PhraseRow {
  Phrase of;
  std::string_view phrases;  ///< separated by '\t'
};
/// Why an answer is not in the grammar; the texts are in tables.cpp.
enum class Fault : unsigned char {
  nested_too_deep,
  open_bracket,
  unfit_words,
  no_operation_between,
  operand_missing,
  unlike_rows,
  no_mathematics
};
std::string_view text_of(Fault fault) noexcept;

/// What may stand around an answer without effect.
struct Shell {
  std::string_view open, close;
};

/// A word in numbers. Kind: n up to ninety, h hundred, p a power of thousand, / a part, a article, & and, o of.
struct NumberWord {
  char kind = 0;
  std::int64_t value = 0;
};
struct NumberRow {
  char kind;
  std::int64_t first, step;  ///< values of the names in order
  std::string_view names;
};

struct Rows {
  std::span<const NameRow> names;
  std::span<const UnitRow> units;
  std::span<const WordRow> words;
  std::span<const PhraseRow> phrases;
  std::span<const NumberRow> numbers;
};
/// The rows that qrl-train judges by.
const Rows& default_rows() noexcept;
std::span<const Shell> shells() noexcept;
std::string_view characters() noexcept;  ///< Unicode's, then what they stand for; a space; '\n' is a space

constexpr bool is_choice(char c) noexcept { return c >= 'A' && c <= 'J'; }
/// Takes a word or sign, in lower case here, that the text begins with and that no letter follows.
bool take_word(std::string_view& text, std::string_view word) noexcept;

class Vocabulary {
 public:
  explicit Vocabulary(const Rows& rows);
  /// Without its backslash; null: not known.
  const Meaning* command(std::string_view name) const noexcept { return find(commands_, name); }
  const Meaning* word(std::string_view word) const noexcept { return find(words_, word); }
  const Meaning* sign(std::string_view sign) const noexcept { return find(signs_, sign); }
  /// Of a word in the singular or plural, in lower case or as a symbol is written.
  Unit unit(std::string_view word) const noexcept;
  /// 1e6 of "million"; 1 of a word that is no magnitude.
  long double magnitude(std::string_view word) const noexcept;
  NumberWord number_word(std::string_view word) const noexcept;
  /// `word` in lower case.
  bool is(WordClass of, std::string_view word) const noexcept;
  /// Whether one of a text's words is.
  bool any(WordClass of, std::string_view text) const;
  /// Takes a phrase that the text begins with.
  bool take(Phrase of, std::string_view& text) const noexcept;
  bool ends(Phrase of, std::string_view text) const noexcept;
  /// Whether letters in a row are a word and no product.
  bool is_word(std::string_view letters) const noexcept;

 private:
  using Names = std::unordered_map<std::string_view, Meaning>;
  static const Meaning* find(const Names& names, std::string_view name) noexcept {
    const auto at = names.find(name);
    return at == names.end() ? nullptr : &at->second;
  }
  Names commands_, words_, signs_;
  std::unordered_map<std::string_view, Unit> units_;
  std::unordered_map<std::string_view, NumberWord> numbers_;
  std::vector<std::unordered_set<std::string>> classes_;
  std::vector<std::vector<std::string_view>> phrases_;
};

const Vocabulary& default_vocabulary();

}  // namespace qrl::reward::math

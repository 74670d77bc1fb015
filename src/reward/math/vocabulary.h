// Owns the words that answers are written in: LaTeX commands, functions, units, and the words around an answer. Rows of
// tables only (tables.cpp); every stage that needs them takes a Vocabulary as an argument.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace qrl::reward::math {

enum class TokenType : unsigned char {
  end,
  number,    ///< text: digits with at most one '.', repeating ones in (), an exponent after 'e'; code: 'w' in words
  symbol,    ///< a variable; text: its name ("x", "\theta", "\mathbb{R}"); code: 'r' of upright letters
  constant,  ///< text: "pi", "e", "i", "infinity", "empty"
  function,  ///< text: name without backslash
  word,      ///< letters that are no product; code: 't' within \text{…}; text: as written
  relation,  ///< code: = < > l(≤) g(≥) n(≠) a(≈) c(≡) e(∈) t(→), or a letter for one without a law here (vocabulary.h)
  op,    ///< code: + - * / ^ _ ! ' P(±) M(∓) % d(degree) : m(mod) p(mod of all before) U(∪) N(∩) D(∖) o(\over)
         ///< h(\choose), others without a law
  open,  ///< code: ( [ { S(\{) F(floor) C(ceiling)
  close,      ///< code: ) ] } S F C
  bar,        ///< |; code: m of \mid
  separator,  ///< code: , ; & (and) | (or)
  fraction,   ///< code: / or b(binomial)
  root,       ///< code: 3 of the cube root
  begin,      ///< of an environment; text: its name
  finish,
  cell,     ///< & in an environment
  newline,  ///< \\ in an environment
  dots,
  money,    ///< a sign of money; text: its unit
  wrapper,  ///< a command with an argument that it only lays out; code: see Wrapper's letters in tables.cpp
  layout,   ///< nothing; code: n where a line ends, . where a full stop behind it belongs to it
};

struct Meaning {
  TokenType type = TokenType::layout;
  char code = 0;
  std::string_view text;
};

/// Names separated by spaces that mean the same; `text` empty: each means itself. `where`: of commands (c), of plain
/// words (w), of both (b).
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
  shown,      ///< short words that are no product of letters
  leading,    ///< before a value, without effect on it
  verb,       ///< says that what follows is the value
  closing,    ///< ends the clause of a value
  refusal,    ///< before a value: it is denied, an operand, a bound or a name
  changing,   ///< behind a value: it is another one, or none
  turning,    ///< in the name of a value: it is not the value itself
  saying,     ///< behind a value: part of the statement, which both sides must have
  hedge,      ///< approximately
  reals,      ///< words for all real numbers
  nothing,    ///< words for no solution
  condition,  ///< before a condition
  count_
};
struct WordRow {
  WordClass of;
  std::string_view words;  ///< separated by spaces; '_' is a space within one
};

struct Rows {
  std::span<const NameRow> names;
  std::span<const UnitRow> units;
  std::span<const WordRow> words;
};
/// The rows that qrl-train judges by.
const Rows& default_rows() noexcept;

class Vocabulary {
 public:
  explicit Vocabulary(const Rows& rows);
  /// Without its backslash; null: not known.
  const Meaning* command(std::string_view name) const noexcept { return find(commands_, name); }
  const Meaning* word(std::string_view word) const noexcept { return find(words_, word); }
  /// Of a word in the singular or plural, in lower case or as a symbol is written.
  Unit unit(std::string_view word) const noexcept;
  /// 1e6 of "million"; 1 of a word that is no magnitude.
  long double magnitude(std::string_view word) const noexcept;
  /// `word` in lower case.
  bool is(WordClass of, std::string_view word) const noexcept;
  /// Whether letters in a row are a word and no product.
  bool is_word(std::string_view letters) const noexcept;

 private:
  using Names = std::unordered_map<std::string_view, Meaning>;
  static const Meaning* find(const Names& names, std::string_view name) noexcept {
    const auto at = names.find(name);
    return at == names.end() ? nullptr : &at->second;
  }
  Names commands_, words_;
  std::unordered_map<std::string_view, Unit> units_;
  std::vector<std::unordered_set<std::string>> classes_;
};

const Vocabulary& default_vocabulary();

}  // namespace qrl::reward::math

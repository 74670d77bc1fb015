// Owns the words that answers are written in: LaTeX commands, functions, units. Tables only.
#pragma once

#include <optional>
#include <string_view>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

struct Meaning {
  TokenType type;
  char code;
  std::string_view text;
};

/// What a LaTeX command stands for, without its backslash; type end for one without meaning for the value (spacing,
/// sizes). Nothing: not known.
std::optional<Meaning> command_meaning(std::string_view name) noexcept;

/// How commands with an argument treat it.
enum class Wrapper : unsigned char {
  none,
  text,       ///< \text: words
  roman,      ///< \mathrm: words, or mathematics if it is one letter or more than letters
  plain,      ///< \mathbf: mathematics as if the command were not there
  named,      ///< \mathbb{R}: a symbol of its own
  operation,  ///< \operatorname: a function's name
  colored,    ///< \textcolor{red}: nothing; its second argument is mathematics
  dropped,    ///< \phantom, \label: nothing
};
Wrapper wrapper_of(std::string_view command) noexcept;

/// A plain word that is a function ("sin", "sqrt"), a constant ("pi") or a symbol ("theta").
std::optional<Meaning> word_meaning(std::string_view word) noexcept;
/// Whether letters in a row are a word and no product: from four on, unless they are all capitals of up to four
/// (points, ABCD), and some that are shorter.
bool is_word(std::string_view word) noexcept;

/// A unit of measure: what it measures and how many of its base unit it is. `dimension` 0: not known.
struct Unit {
  char dimension = 0;
  long double factor = 1;
};
Unit unit_of(std::string_view word) noexcept;
/// Whether it is a symbol of a unit that has no factor here, with its prefix and as it is written: "N", "kJ", "mol".
bool is_unit_symbol(std::string_view word) noexcept;

/// The unit that a sign of money stands for: "dollar" of "$" and "USD", "euro" of "euro" (the command). Empty: none.
std::string_view currency_of(std::string_view name) noexcept;

/// 1e6 of "million"; 1 of a word that is no magnitude. Lower case.
long double magnitude_of(std::string_view word) noexcept;

}  // namespace qrl::reward::math

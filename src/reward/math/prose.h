// Owns the words around a number that make another one of it: "not 42", "negative 42", "42 squared", "42 is wrong".
// Knows nothing of formulas.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace qrl::reward::math {

/// The letters from `at` on, in lower case; `at` is behind them then.
std::string take_letters(std::string_view text, std::size_t& at);

/// Whether one of the phrases, of words in lower case with a space between them, stands in a text as whole words,
/// whatever is between them; "n't" is a word of its own.
bool has_phrase(std::string_view text, std::span<const std::string_view> phrases);

/// Whether words before a value deny it or take another one for it: "isn't", "false", "the reciprocal of",
/// "extraneous". All of them count, those of a whole sentence.
bool turns(std::string_view words);

/// The words behind a value that say something of it, rather than what is counted: "even", "profit", "above".
std::set<std::string> saying_words(std::string_view words);

/// Whether a text begins, in upper or lower case, with one of the words that turn around what stands behind them: "less
/// than", "half of", "not".
bool begins_turned_around(std::string_view text) noexcept;

/// The text behind "negative" or "minus" where it begins so; empty where it does not.
std::string_view behind_minus(std::string_view text) noexcept;

/// Whether "negative" or "minus" stands right before what follows the text.
bool ends_with_minus(std::string_view text) noexcept;

/// Whether the words right before a number deny it or take it further: "is not", "I doubt it is", "rejected:",
/// "double", "the square of", "divisible by", "up to", "such as". Only the clause counts: back to a digit or a sign of
/// punctuation.
bool denies(std::string_view before);

/// Whether the words before "answer" deny the statement about it: "it is false that the", "I don't think the".
bool denies_what_follows(std::string_view before);

/// Whether the words right behind a number make another one of it: "squared", "times 2", "choose 2", "less than", "or
/// 43", "and a half", "remainder 1", "is wrong", "out of 50", "but it could be 43", "?", and the "nd" of an ordinal
/// one, where it is no `fraction` (3/4th). Units and things counted do not.
bool changes(std::string_view behind, bool fraction = false);

}  // namespace qrl::reward::math

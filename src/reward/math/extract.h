#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

/// Place of a response's answer (reward.profile); automatic: the first place that has one.
enum class Profile : std::uint8_t { automatic, boxed, gsm8k, answer_is, answer_tag, text, last_number };

/// Returns a response's answer without delimiters such as $, then alternatives to judge if the answer is wrong. Empty
/// if no answer is found. Several boxes joined by commas or "and" are one list. Searches only the response's end, in
/// linear time. Profiles: docs/reference/verifiers.md.
std::vector<std::string> extract(std::string_view response, Profile profile,
                                 const Vocabulary& vocabulary = default_vocabulary());

/// Returns a ground truth's gold answer: its last box, else the text after ####, else all of it.
std::string extract_gold(std::string_view ground_truth);

// ---- clause.cpp: beginnings and ends of clauses, numbers and formulas

/// Takes linear time.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept;
/// Removes whitespace and delimiters ($, emphasis) at both ends, and punctuation at the end.
std::string_view bare(std::string_view text) noexcept;
/// Returns a list item's text: after "- ", "* ", "1. " or "2) "; else "".
std::string_view item_of(std::string_view line) noexcept;
/// Returns the first sentence, without the full stop, line break or closing tag that ends it.
std::string_view sentence(std::string_view text, const Vocabulary& vocabulary);
/// Returns a clause's value ("42" of "a total of 42 because …"), without leading and closing words (WordClass).
std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary);
/// Returns a text's last number with the formula and unit around it (x^2 = 16, 12 m²). Returns none if preceding words
/// reject the number, or if another number closely precedes it.
std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary);
/// Returns whether all words of a text are function names, units, "and" or "or".
bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

/// Part of a response in which to search for the answer (reward.profile, docs/reference/verifiers.md). automatic: the
/// first of these parts that the response has.
enum class Profile : std::uint8_t { automatic, boxed, gsm8k, answer_is, answer_tag, text, last_number };

/// Returns a response's answer without delimiters such as $, followed by alternatives to judge if the answer is wrong.
/// Returns nothing if no answer is found. Boxes joined by commas or "and" form one list. Searches only the response's
/// end, in linear time.
std::vector<std::string> extract(std::string_view response, Profile profile,
                                 const Vocabulary& vocabulary = default_vocabulary());

/// Returns a ground truth's gold answer: its last box, else the text after ####, else all of it.
std::string extract_gold(std::string_view ground_truth);

// ---- clause.cpp: beginnings and ends of clauses, numbers and formulas

/// Takes linear time.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept;
/// Removes whitespace and delimiters ($, emphasis) at both ends, and punctuation at the end.
std::string_view bare(std::string_view text) noexcept;
/// Returns the text of a list item after its "- ", "* ", "1. " or "2) "; "" for other lines.
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

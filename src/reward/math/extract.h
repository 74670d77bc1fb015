// Owns the location of the answer in a response.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

/// Returns the answer of a response without $ and other delimiters, followed by alternatives that count if it is wrong.
/// Several boxes joined by commas or "and" are one list. Returns nothing if there is no answer. Only the end of a
/// response is searched (kMaxScanned_bytes in answer.h), in linear time. docs/reference/verifiers.md describes the
/// profiles.
std::vector<std::string> extract(std::string_view response, config::MathProfile profile,
                                 const Vocabulary& vocabulary = default_vocabulary());

/// Returns the gold answer in a ground truth: its last box, the text after ####, or the whole text.
std::string extract_gold(std::string_view ground_truth);

// ---- clause.cpp: where clauses, numbers and formulas begin and end

/// Returns the last position of `needle` in a text; npos if it does not occur. Takes linear time for any text.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept;
/// Returns the text without white space, LaTeX's spaces, $, emphasis and closing punctuation at both ends.
std::string_view bare(std::string_view text) noexcept;
/// Returns the text of a list item: after "- ", "* ", "1. " or "2) "; empty if the line is no item.
std::string_view item_of(std::string_view line) noexcept;
/// Returns the text up to the full stop, line break or tag that ends it.
std::string_view sentence(std::string_view text, const Vocabulary& vocabulary);
/// Returns the value in a clause, without leading words of the vocabulary and without a closing part: "42" of "a total
/// of 42 because …".
std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary);
/// Returns the last number of a text with the formula and unit around it (x^2 = 16, 12 m²), by the rule in
/// docs/reference/verifiers.md. Returns nothing if text before it in its sentence rejects it, or if other text follows.
std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary);
/// Returns whether a text looks like mathematics: it has no plain words except function names, "and" and "or".
bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

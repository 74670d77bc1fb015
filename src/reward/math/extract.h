// Owns where in a response its answer stands. Knows nothing of what an answer means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

/// The answer of a response, without $ and other surroundings; several boxes joined by commas or "and" are one list.
/// Others behind it are read where it is not right. Only the end of a response is searched (answer.h's
/// kMaxScanned_bytes); linear in that. None: there is no answer. The profiles are those of docs/reference/verifiers.md.
std::vector<std::string> extract(std::string_view response, config::MathProfile profile,
                                 const Vocabulary& vocabulary = default_vocabulary());

/// The gold answer in a ground truth: its last box, what follows ####, or the whole.
std::string extract_gold(std::string_view ground_truth);

// ---- clause.cpp: where clauses, numbers and formulas begin and end

/// The last place of `needle` in a text; npos where there is none. Linear, whatever the text.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept;
/// Without white space, LaTeX's spaces, $, emphasis and closing punctuation at both ends.
std::string_view bare(std::string_view text) noexcept;
/// The text of an item at the start of a line, behind "- ", "* ", "1. " or "2) "; empty where there is none.
std::string_view item_of(std::string_view line) noexcept;
/// To the full stop, line break or tag that ends it.
std::string_view sentence(std::string_view text, const Vocabulary& vocabulary);
/// Without the words of the table at its beginning and what begins with one that ends a clause: "42" of "a total of 42
/// because …".
std::string value_of_clause(std::string_view clause, const Vocabulary& vocabulary);
/// The last number of a text with all that belongs to it, x^2 = 16 and 12 m², by the page's rule; nothing where
/// something before it in its sentence refuses it or something else follows.
std::optional<std::string> last_number(std::string_view text, const Vocabulary& vocabulary);
/// Whether no plain word stands in it but names of functions and "and", "or": mathematics by its looks.
bool looks_like_formula(std::string_view text, const Vocabulary& vocabulary);

}  // namespace qrl::reward::math

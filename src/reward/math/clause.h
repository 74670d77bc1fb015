// Owns what a clause of prose says: the formula or the number that it is about. Knows nothing of which clause of a
// response holds its answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::reward::math {

/// Where the last `needle` begins; npos if there is none. As std::string_view::rfind, but at the speed of memory.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept;
/// Without what surrounds a formula: $…$, \(…\), \[…\], **…**, LaTeX's spaces, and the full stop behind it.
std::string_view bare(std::string_view text) noexcept;
/// Whether it can be read and is more than words; false of texts longer than any formula.
bool is_formula(std::string_view text);

/// Of a last sentence that says an answer.
inline constexpr std::size_t kMaxSentence_bytes = 200;
/// Behind the last full stop or line break, without its own full stop.
std::string_view last_sentence(std::string_view text) noexcept;

/// The last number of a text, or its last formula between delimiters where that stands later. Nothing where there is
/// none and where words beside the number deny it.
std::optional<std::string> last_value(std::string_view text);

/// The formula that the last sentence ends with, perhaps before its unit, where it is no number: "The area is 36\pi
/// square units", "So z = 3 + 4i". Nothing where other words stand beside it.
std::optional<std::string> said_at_end(std::string_view text);

/// What a clause says: all of it where it is a formula, a choice with its label, or words that make another answer of
/// its number; else the formula or number that it begins with, else its last one, else its words.
std::string value_of_clause(std::string_view clause);

}  // namespace qrl::reward::math

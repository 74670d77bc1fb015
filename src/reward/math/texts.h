// Owns when two texts are the same: what answers in words are compared by.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::reward::math {

/// Letters and digits of a text in lower case, with points and signs before digits; of LaTeX's commands the names of
/// those that are no layout.
std::string text_key(std::string_view text);

/// Signs of operations in a text, negations and bars over it among them, in order, and a minus right before its first
/// word: what text_key leaves out.
std::string signs_shown(std::string_view text);

/// "Figure 3": words, one of them long enough to be one, and numbers that stand apart from them, and nothing else.
bool is_named_number(std::string_view text) noexcept;

/// Whether a text_key is of words for all real numbers: "all real numbers", "any real value of".
bool names_reals(std::string_view key) noexcept;

/// "June 20", "June 20, 2024": a month's name in full and numbers behind it.
bool is_date(std::string_view text);

/// "(mod 7)".
bool is_modulus(std::string_view content) noexcept;
/// "(3, 4)": signed decimals in brackets with commas between them.
bool is_numeric_tuple(std::string_view content) noexcept;
/// Whether it ends with a command or sign for a space: \, \; \: "\ " ~ \quad, white space behind it or not.
bool ends_with_spacing(std::string_view text) noexcept;
/// "A, C", "A and C": choices, which are a list within \text{…} too.
bool is_list_of_letters(std::string_view content) noexcept;

/// "y = 2x + 3": an equation with names of one letter, which is mathematics within \text{…} too.
bool is_equation_of_letters(std::string_view content) noexcept;
/// "The maximum is": words that say what follows them, not what turns or denies it.
bool says_is(std::string_view words);
/// Words before an approximation, and those that join it to what it is one of.
inline constexpr std::string_view kHedges[] = {"approximately", "approx", "about", "roughly"};
inline constexpr std::string_view kHedgeJoints[] = {"or", "which is", "that is", "i.e."};
/// "or approximately", "which is about".
bool is_hedge(std::string_view words) noexcept;
/// Whether a number, fraction, root or π begins a text, perhaps with a minus.
bool begins_value(std::string_view text) noexcept;

/// Two lists of the same short items of letters, in any order, perhaps within \text{…}: whether both or neither are
/// joined by "or" ("Alice, Bob and Carol" and "Carol, Alice and Bob"). Nothing where they are something else.
std::optional<bool> same_word_lists(std::string_view a, std::string_view b);

/// Not empty and the same apart from white space; with digits, the same byte for byte ("1 2/3" is not "12/3").
bool same_text(std::string_view a, std::string_view b);

/// Whether the gold answer is yes, no, true or false and the answer begins with it: a reason often follows. Not where
/// it is negated by a sign or ends with its opposite: "Yes, but no".
bool begins_with_verdict(const std::string& gold_key, std::string_view answer);

}  // namespace qrl::reward::math

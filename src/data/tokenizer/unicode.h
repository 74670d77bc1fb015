#pragma once

#include <string>
#include <string_view>

namespace qrl::data {

bool is_nfc(std::string_view text);
/// Converts valid UTF-8 to normalization form C by the tables of Unicode 9, like the tokenizers library. Newer
/// characters stay unchanged.
std::string to_nfc(std::string_view text);

enum class Spaces : bool {
  unicode,  ///< the property White_Space
  python,   ///< str.isspace(): these and U+001C to U+001F
};
/// Return the number of bytes of white space at the start or end of valid UTF-8.
std::size_t leading_space_bytes(std::string_view text, Spaces spaces = Spaces::unicode);
std::size_t trailing_space_bytes(std::string_view text, Spaces spaces = Spaces::unicode);
/// Converts valid UTF-8 to upper or lower case by Unicode's full mapping. Ignores each character's context.
std::string with_case_of(std::string_view text, bool is_upper);
/// Returns whether valid UTF-8 holds only line ends, tabs, and characters that Python's repr() leaves unchanged.
bool is_printable(std::string_view text);
/// Return whether valid UTF-8 begins or ends with a word character (\w of UTS #18, annex C).
bool begins_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace qrl::data

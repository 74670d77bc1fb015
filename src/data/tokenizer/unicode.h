// Owns what the tokenizer asks of Unicode's tables (ICU). Knows nothing of tokens.
#pragma once

#include <string>
#include <string_view>

namespace qrl::data {

/// Whether valid UTF-8 is in normalization form C already (UAX #15).
bool is_nfc(std::string_view text);
/// Converts valid UTF-8 to normalization form C by the tables of Unicode 9, as the tokenizers library does: later
/// characters stay as and where they are.
std::string to_nfc(std::string_view text);

/// Bytes of white space (property White_Space) that valid UTF-8 begins or ends with.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_bytes(std::string_view text);
/// Characters of valid UTF-8 in upper or lower case, each by itself, by Unicode's full mapping.
std::string with_case_of(std::string_view text, bool is_upper);
/// Whether Python's repr() leaves all characters of valid UTF-8 as they are, except line ends and tabs.
bool is_printable(std::string_view text);
/// Whether valid UTF-8 begins or ends with a character of words (\w of UTS #18, annex C).
bool begins_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace qrl::data

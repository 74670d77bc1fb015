// Owns how words are written for a shell.
#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Writes a text as one word of a shell's command: as it is, or between single quotes.
std::string shell_word(std::string_view text);

}  // namespace qrl::base

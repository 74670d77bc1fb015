// Owns the quoting of words for a shell.
#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Returns the text as one word of a shell command, in single quotes if it needs them.
std::string shell_word(std::string_view text);

}  // namespace qrl::base

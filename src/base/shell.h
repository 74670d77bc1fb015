#pragma once

#include <string>
#include <string_view>

namespace qrl::base {

/// Quotes the text as one shell word if needed.
std::string shell_word(std::string_view text);

}  // namespace qrl::base

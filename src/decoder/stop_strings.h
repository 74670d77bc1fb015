// Owns the search for stop strings in text by token.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qrl::decoder {

/// Returns whether `bytes`, the next token's text, complete a stop string. Updates `tail`, the previous text's end,
/// empty at first. Stop strings are not empty.
bool completes_stop_string(std::span<const std::string> stop_strings, std::string_view bytes, std::string& tail);

}  // namespace qrl::decoder

// Owns the search for stop strings in text that comes token by token. Knows nothing of sequences.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qrl::decoder {

/// Whether the text ends a stop string with `bytes`, those of its next token, wherever in them that is. `tail` is the
/// end of the text before, empty at its start: it becomes the end of the text with `bytes`. No string is empty.
bool completes_stop_string(std::span<const std::string> stop_strings, std::string_view bytes, std::string& tail);

}  // namespace qrl::decoder

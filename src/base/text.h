#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qrl::base {

/// Returns whether the text is strict UTF-8: no overlong forms or surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

/// Returns the candidate with the least edit distance to `word` (Damerau–Levenshtein, adjacent swaps), or "" if that
/// exceeds a third of the word's length (one edit for two letters).
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// Quotes at most `max_chars` bytes of untrusted text, with \xNN outside printable ASCII.
std::string quoted(std::string_view text, std::size_t max_chars = 60);

template <class Words>
std::string joined(const Words& words, std::string_view separator) {
  std::string text;
  bool is_first = true;
  for (const auto& word : words) {
    if (!is_first) text += separator;
    text += word;
    is_first = false;
  }
  return text;
}

/// Formats like printf, cut at 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// Quotes the text as one shell word if needed.
std::string shell_word(std::string_view text);

}  // namespace qrl::base

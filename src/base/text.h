#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace qrl::base {

bool is_utf8(std::string_view text);
/// Returns the number of bytes of the text's first character; 0 if it is not UTF-8.
std::size_t character_bytes(std::string_view text);

/// Parses the whole text as a number. Returns nothing for other texts and for numbers beyond the type's range.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Returns the candidate with the least edit distance to `word` (Damerau–Levenshtein, adjacent swaps). Returns "" if
/// the distance exceeds max(1, word.size() / 3).
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// Quotes at most `max_chars` bytes of untrusted text. Bytes outside printable ASCII become \xNN.
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

/// Formats like printf. Cuts the result at 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

std::string shell_word(std::string_view text);

/// Quotes at most `max_bytes` of a text, in whole characters, as a YAML string. \", \\, \n and \t are escaped. Control
/// characters, characters that reorder or hide text, and non-UTF-8 bytes become \xNN or \uNNNN.
std::string readable(std::string_view text, std::size_t max_bytes = 60);

/// Escapes text for a terminal: control characters except newline and tab, characters that reorder or hide text, and
/// non-UTF-8 bytes.
std::string printable(std::string_view text);

[[gnu::format(printf, 1, 2)]] void print(const char* pattern, ...);

inline constexpr const char* kLfsPointer = "a Git LFS pointer; fetch the file itself with git lfs pull";

constexpr bool is_lfs_pointer(std::string_view text) { return text.starts_with("version https://git-lfs"); }

}  // namespace qrl::base

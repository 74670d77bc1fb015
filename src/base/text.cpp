#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/ascii.h"

namespace qrl::base {

namespace {

/// Holds a UTF-8 character of at least two bytes. num_bytes is 0 if the bytes are not such a character.
struct WideCharacter {
  std::size_t num_bytes = 0;
  std::uint32_t code = 0;
};

WideCharacter wide_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || length > text.size()) return {};
  std::uint32_t code = lead & (0x7fU >> length);
  for (const char c : text.substr(1, length - 1)) {
    const auto next = static_cast<unsigned char>(c);
    if ((next & 0xc0U) != 0x80U) return {};
    code = (code << 6) | (next & 0x3fU);
  }
  if ((length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10ffff))) return {};
  if (code >= 0xd800 && code <= 0xdfff) return {};
  return {length, code};
}

void append_hex(std::uint32_t value, int digits, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15U];
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the dynamic program: distances from the first i, i−1 and i−2 letters of `a` to prefixes of `b`.
  std::vector<std::size_t> row(b.size() + 1), before(row.size()), two_before(row.size());
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// Counts letters that both words have, in any order. Each other letter of the longer word needs an edit.
std::size_t letters_in_common(std::string_view a, std::string_view b) {
  std::array<std::uint8_t, 256> unmatched{};
  for (const char c : a) ++unmatched[static_cast<unsigned char>(c)];
  return static_cast<std::size_t>(std::count_if(b.begin(), b.end(), [&unmatched](char c) {
    std::uint8_t& left = unmatched[static_cast<unsigned char>(c)];
    return left > 0 && left-- > 0;
  }));
}

}  // namespace

std::size_t character_bytes(std::string_view text) {
  return static_cast<unsigned char>(text.front()) < 0x80 ? 1 : wide_character(text).num_bytes;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_bytes(text.substr(at));
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string nearest_name(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() < 2 || word.size() > 100) return {};  // a single letter is close to every name
  std::string best;
  std::size_t best_edits = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (longer - letters_in_common(word, candidate) >= best_edits) continue;  // a lower bound of the distance
    const std::size_t edits = edit_distance(word, candidate);
    if (edits < best_edits) {
      best_edits = edits;
      best = candidate;
    }
  }
  return best;
}

std::string quoted(std::string_view text, std::size_t max_chars) {
  std::string out = "\"";
  for (const char c : text.substr(0, max_chars)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) out += c;
    else if (c == '\n') out += "\\n";
    else append_hex(byte, 2, out += "\\x");
  }
  return out + (text.size() > max_chars ? "…\"" : "\"");
}

std::string format(const char* pattern, ...) {
  char text[512];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return text;
}

std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return is_alphanumeric(c) || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

namespace {

bool is_hidden(std::uint32_t code) {
  struct Range {
    std::uint32_t first, last;
  };
  constexpr std::array<Range, 7> kHidden = {{{0x80, 0x9f},
                                             {0xad, 0xad},
                                             {0x200b, 0x200f},
                                             {0x2028, 0x202e},
                                             {0x2060, 0x206f},
                                             {0xfeff, 0xfeff},
                                             {0xfff9, 0xfffb}}};
  return std::ranges::any_of(kHidden, [&](const Range& range) { return code >= range.first && code <= range.last; });
}

void append_byte(unsigned char byte, std::string& out) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '"':
    case '\\':
      out += '\\';
      out += static_cast<char>(byte);
      return;
    default:
      break;
  }
  if (byte >= 0x20 && byte < 0x7f) {
    out += static_cast<char>(byte);
    return;
  }
  out += "\\x";
  append_hex(byte, 2, out);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [length, code] = wide_character(text.substr(at));
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    const auto byte = static_cast<unsigned char>(character.front());
    if (length > 0 && is_hidden(code)) append_hex(code, 4, out += "\\u");
    else if (length > 0 || byte == '\n' || byte == '\t' || (byte >= 0x20 && byte < 0x7f)) out += character;
    else append_hex(byte, 2, out += "\\x");
    at += character.size();
  }
  return out;
}

void print(const char* pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  std::string text(static_cast<std::size_t>(std::max(0, std::vsnprintf(nullptr, 0, pattern, args))) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), pattern, again);
  va_end(again);
  va_end(args);
  text.pop_back();
  std::fputs(printable(text).c_str(), stdout);
}

std::string readable(std::string_view text, std::size_t max_bytes) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < text.size()) {
    const auto [length, code] = wide_character(text.substr(at));
    if (at + std::max<std::size_t>(length, 1) > max_bytes) break;
    if (length == 0) {
      append_byte(static_cast<unsigned char>(text[at++]), out);
      continue;
    }
    if (is_hidden(code)) append_hex(code, 4, out += "\\u");
    else out += text.substr(at, length);
    at += length;
  }
  return out + (at < text.size() ? "…\"" : "\"");
}

}  // namespace qrl::base

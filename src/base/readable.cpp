#include "base/readable.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "base/text.h"

namespace qrl::base {

namespace {

/// C1 controls, direction marks, joiners, line separators.
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

void append_hex(std::uint32_t value, int digits, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(value >> shift) & 15U];
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

std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  return length > 0 && length <= text.size() && is_utf8(text.substr(0, length)) ? length : 0;
}

std::uint32_t code_of(std::string_view character) {
  std::uint32_t code = static_cast<unsigned char>(character.front()) & (0x7fU >> character.size());
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_bytes(text.substr(at));
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    const auto byte = static_cast<unsigned char>(character.front());
    if (length > 0 && is_hidden(code_of(character))) append_hex(code_of(character), 4, out += "\\u");
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
    const std::size_t length = character_bytes(text.substr(at));
    if (at + std::max<std::size_t>(length, 1) > max_bytes) break;
    if (length == 0) {
      append_byte(static_cast<unsigned char>(text[at++]), out);
      continue;
    }
    const std::string_view character = text.substr(at, length);
    const std::uint32_t code = code_of(character);
    if (is_hidden(code)) append_hex(code, 4, out += "\\u");
    else out += character;
    at += length;
  }
  return out + (at < text.size() ? "…\"" : "\"");
}

}  // namespace qrl::base

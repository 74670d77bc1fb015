#include "base/text.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/ascii.h"

namespace qrl::base {

bool is_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
    if (length == 0 || lead > 0xf4 || i + static_cast<std::size_t>(length) > text.size()) return false;
    std::uint32_t code = lead & (0x7fU >> length);
    for (int k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(k)]);
      if ((next & 0xc0U) != 0x80U) return false;
      code = (code << 6) | (next & 0x3fU);
    }
    if ((length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10ffff))) return false;
    if (code >= 0xd800 && code <= 0xdfff) return false;
    i += static_cast<std::size_t>(length);
  }
  return true;
}

namespace {

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
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, max_chars)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) out += c;
    else if (c == '\n') out += "\\n";
    else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15U];
    }
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

}  // namespace qrl::base

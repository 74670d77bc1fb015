// Owns the general categories of characters that are newer than the Unicode version of some PCRE2 releases.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace qrl::data {

struct NewerCharacters {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::string_view category;  ///< two letters
};

/// Returns characters of Unicode 15, 15.1 and 16 that Unicode 14 (PCRE2 10.40 to 10.42) did not assign.
std::span<const NewerCharacters> newer_characters();

}  // namespace qrl::data

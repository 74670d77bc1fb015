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

/// Returns characters of Unicode 15, 15.1 and 16 that Unicode 14 (PCRE2 10.40 to 10.42) did not assign, with their
/// general categories.
std::span<const NewerCharacters> newer_characters();

}  // namespace qrl::data

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/kernels/varlen_attention.h"

namespace qrl::ops {

struct Families {
  std::vector<Family> all;
  std::int64_t longest = 0;  ///< largest number of rows that a sequence continues or has, prefix included
};

/// Groups packed sequences by prefix; arguments are as in VarlenAttention. Throws an internal error for a continuation
/// without a prefix.
inline Families families_of(const std::int32_t* sequence_starts, std::int64_t num_sequences,
                            const std::uint8_t* continues_prefix, const char* where) {
  Families families;
  std::int64_t prefix_length = 0;
  for (std::int64_t s = 0; s < num_sequences; ++s) {
    const bool continues = continues_prefix != nullptr && continues_prefix[s] != 0;
    QRL_INVARIANT(!continues || s > 0, where, "a prefix before the sequence that continues it", "no prefix");
    const std::int64_t length = sequence_starts[s + 1] - sequence_starts[s];
    if (continues) {
      families.all.back().end_sequence = s + 1;
    } else {
      families.all.push_back({s, s + 1});
      prefix_length = length;
    }
    families.longest = std::max(families.longest, continues ? prefix_length + length : length);
  }
  return families;
}

}  // namespace qrl::ops

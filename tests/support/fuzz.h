// What fuzz tests share: how many runs, and random edits of a good input.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/rng.h"

namespace qrl::test {

/// `usual` runs, or those of scripts/test --long: a million unless said. Run i draws from stream i, so a failure needs
/// its index alone.
inline std::uint64_t fuzz_runs(std::uint64_t usual, std::uint64_t long_runs = 1'000'000) {
  return std::getenv("QRL_LONG_TESTS") == nullptr ? usual : long_runs;
}

/// `good` after one to four edits: a byte replaced, up to `max_bytes` erased, or as many copied from elsewhere in it.
inline std::string edited(const std::string& good, std::uint64_t max_bytes, base::RandomStream& random) {
  std::string text = good;
  for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
    const std::size_t at = random.below(text.size());
    const std::uint64_t kind = random.below(3), num_bytes = 1 + random.below(max_bytes);
    if (kind == 0) text[at] = static_cast<char>(random.below(256));
    if (kind == 1) text.erase(at, num_bytes);
    if (kind == 2) text.insert(at, text.substr(random.below(text.size()), num_bytes));
    if (text.empty()) text = good;
  }
  return text;
}

}  // namespace qrl::test

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/threads.h"

namespace qrl::learner {

constexpr std::int64_t kBlockRows = 48;

/// Calls make_body()(team of one, rows) for blocks of a micro-batch's rows; each thread makes its own body. A block's
/// matmul results stay in L2.
template <class MakeBody>
void by_blocks(std::int64_t num_rows, const MakeBody& make_body, std::int64_t block_rows = kBlockRows) {
  std::atomic<std::int64_t> next{0};
  base::parallel(0, [&](base::Team&) {
    base::Team alone = base::Team::solo();
    auto body = make_body();
    for (std::int64_t first = next.fetch_add(block_rows); first < num_rows; first = next.fetch_add(block_rows))
      body(alone, base::Range{first, std::min(num_rows, first + block_rows)});
  });
}

}  // namespace qrl::learner

// Owns packed sequences as ticks of an engine: whole sequences at once, instead of a scheduler's rows. Knows nothing of
// what is computed.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "model/device_weights.h"

namespace qrl::decoder {

/// What one tick may have.
struct TickLimits {
  std::int64_t max_rows = 0, max_sequences = 0, page_size = 0;
};

/// The rows in order, cut where a tick is full. Pages are numbered from 0; a sequence that continues a prefix reads the
/// prefix's full pages and has a copy of its last one, as a decoder's samples do, made in the tick of its first row.
class PackedTicks {
 public:
  /// `rows` must outlive it.
  PackedTicks(const model::PackedSequences& rows, const TickLimits& limits);
  PackedTicks(const PackedTicks&) = delete;
  PackedTicks& operator=(const PackedTicks&) = delete;

  const std::vector<cuda::Tick>& ticks() const { return ticks_; }
  std::int64_t num_pages() const { return num_pages_; }

 private:
  struct Arrays {
    std::size_t first_row = 0;
    std::int64_t num_sequences = 0;
    std::vector<std::int32_t> positions_N, first_page_N, page_ids;
    std::vector<cuda::SlotCopy> copies;
  };
  std::deque<Arrays> arrays_;
  std::vector<cuda::Tick> ticks_;
  std::int64_t num_pages_ = 0;
};

}  // namespace qrl::decoder

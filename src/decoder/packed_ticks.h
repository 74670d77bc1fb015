// Owns the conversion of whole packed sequences to ticks of an engine, without a scheduler.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "model/device_weights.h"

namespace qrl::decoder {

/// Limits of one tick.
struct TickLimits {
  std::int64_t max_rows = 0, max_sequences = 0, page_size = 0;
};

/// Splits the rows, in order, into ticks as full as the limits allow. Pages are numbered from 0. A sequence that
/// continues a prefix reads the prefix's full pages and a copy of its last, partly filled one. The copy is made in the
/// tick of its first row.
class PackedTicks {
 public:
  /// `rows` must outlive this.
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

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "decoder/plan.h"
#include "model/device_weights.h"

namespace qrl::decoder {

/// Converts a plan to an engine's tick, reusing this object's memory.
class DeviceTick {
 public:
  explicit DeviceTick(std::int64_t page_size) : page_size_(page_size) {}
  /// Returns a tick that refers to `plan`, valid until the next call.
  cuda::Tick fill(const Plan& plan);

 private:
  std::int64_t page_size_;
  std::vector<std::int32_t> first_page_N_, page_ids_;
  std::vector<cuda::SlotCopy> copies_;
};

struct TickLimits {
  std::int64_t max_rows = 0, max_sequences = 0, page_size = 0;
};

/// Splits the rows of packed sequences, in order, into ticks that are as full as the limits allow. Pages are numbered
/// from 0. A continuation reads its prefix's full pages. Its first tick copies the prefix's partly filled last page.
class PackedTicks {
 public:
  /// `rows` must outlive this object.
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

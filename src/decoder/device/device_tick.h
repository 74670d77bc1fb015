#pragma once

#include <cstdint>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "decoder/plan.h"

namespace qrl::decoder {

/// Converts a plan to the arrays of an engine's tick. One object kept for all ticks reuses its memory.
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

}  // namespace qrl::decoder

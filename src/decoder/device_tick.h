// Owns what a plan is to an engine on a GPU: the arrays of one of its ticks. Knows nothing of sampling.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "decoder/plan.h"

namespace qrl::decoder {

/// A plan's rows as one tick of an engine; kept from tick to tick for its memory.
class DeviceTick {
 public:
  explicit DeviceTick(std::int64_t page_size) : page_size_(page_size) {}
  /// What it returns holds until the next call, and reads `plan`.
  cuda::Tick fill(const Plan& plan);

 private:
  std::int64_t page_size_;
  std::vector<std::int32_t> first_page_N_, page_ids_;
  std::vector<cuda::SlotCopy> copies_;
};

}  // namespace qrl::decoder

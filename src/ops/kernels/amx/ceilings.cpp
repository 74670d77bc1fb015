// What AMX multiplies from tile registers.
#include "ops/kernels/ceilings.h"

#include "ops/kernels/amx/tiles.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr std::int64_t kStepsOfRound = 4;  // steps of a block, to take about as long as a round of vectors times eight

template <class Unit>
std::int64_t ceiling(std::int64_t rounds) {
  alignas(64) static constexpr std::byte kOperand[kTile * kPanelRowBytes] = {};
  Tiles tiles;
  tiles.set_rows(kBlock);
  clear_sums();
  const std::int64_t blocks = rounds / (8 * kStepsOfRound);
  // The same tiles again and again: from the first cache.
  const LeftBlock rows{kOperand, kOperand, kTileRowBytes, 0};
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t step = 0; step < kStepsOfRound; ++step) add_products<Unit>(tiles, rows, kOperand, 1, [] {});
  }
  return blocks * kStepsOfRound * 2 * kBlock * kBlock * kTile * Unit::kInputs;
}

}  // namespace

constinit const CeilingKernels kCeilings = {
    .int8 = ceiling<Int8Tiles>, .bf16 = ceiling<Bf16Tiles>, .f32 = nullptr, .read = nullptr};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

// What AMX multiplies from tile registers.
#include "ops/kernels/ceilings.h"

#include "ops/kernels/amx/tiles.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

// A step of a block takes some 64 cycles, a round of twelve vectors 6 to 12: so many rounds are one step, to take about
// as long.
constexpr std::int64_t kRoundsOfStep = 8;

template <class Unit>
std::int64_t ceiling(std::int64_t rounds) {
  alignas(64) static constexpr std::byte kOperand[kTile * kPanelRowBytes] = {};
  Tiles tiles;
  tiles.set_rows(kBlock);
  clear_sums();
  const std::int64_t steps = rounds / kRoundsOfStep;
  // The same tiles again and again: from the first cache.
  const LeftBlock rows{kOperand, kOperand, kTileRowBytes, 0};
  for (std::int64_t step = 0; step < steps; ++step) add_products<Unit>(tiles, rows, {kOperand}, 1, [] {});
  return steps * 2 * kBlock * kBlock * kTile * Unit::kInputs;
}

}  // namespace

constinit const CeilingKernels kCeilings = {
    .int8 = ceiling<Int8Tiles>, .bf16 = ceiling<Bf16Tiles>, .f32 = nullptr, .read = nullptr};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

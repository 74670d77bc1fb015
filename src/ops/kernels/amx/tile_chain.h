#pragma once

#include "ops/kernels/amx/tiles.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

/// Multiplies tiles for about as long as `rounds` rounds of twelve vector instructions take. Returns the operation
/// count. A block step takes about 64 cycles, a vector round 6 to 12.
template <class Unit>
std::int64_t run_tile_chain(std::int64_t rounds) {
  constexpr std::int64_t kRoundsOfStep = 8;
  alignas(64) static constexpr std::byte kOperand[kTile * kPanelRowBytes] = {};
  Tiles tiles;
  tiles.set_rows(kBlock);
  clear_sums();
  const std::int64_t steps = rounds / kRoundsOfStep;
  const LeftBlock rows{kOperand, kOperand, kTileRowBytes, 0};
  for (std::int64_t step = 0; step < steps; ++step) add_products<Unit>(tiles, rows, {kOperand}, 1, [] {});
  return steps * 2 * kBlock * kBlock * kTile * Unit::kInputs;
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

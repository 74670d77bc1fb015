// Owns one AMX tile instruction on operands in memory, compiled twice: for the processor and for emulated tiles.
#pragma once

#include <cstdint>

namespace qrl::ops {

/// Computes sums[rows, columns] += left[rows, words] · right[words, columns] of 32-bit words, 1 … 16 of each; rows are
/// contiguous. A word holds two bf16 or four int8 numbers; sums are fp32 or int32.
struct TileStep {
  int rows = 16, columns = 16, words = 16;
  bool int8 = false;
  const std::uint32_t* left = nullptr;
  const std::uint32_t* right = nullptr;
  std::uint32_t* sums = nullptr;
};

namespace amx_processor {
void run_tile_step(const TileStep& step);
}
namespace amx_emulated {
void run_tile_step(const TileStep& step);
}

}  // namespace qrl::ops

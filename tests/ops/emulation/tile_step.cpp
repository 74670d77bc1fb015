#include "ops/emulation/tile_step.h"

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

void run_tile_step(const TileStep& step) {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  const auto configure = [&](int tile, int rows, int words) {
    config.rows[tile] = static_cast<std::uint8_t>(rows);
    config.row_bytes[tile] = static_cast<std::uint16_t>(4 * words);
  };
  configure(0, step.rows, step.columns);
  configure(1, step.rows, step.words);
  configure(2, step.words, step.columns);
  __asm__ volatile("" ::: "memory");  // the compiler does not know that tile loads read memory
  _tile_loadconfig(&config);
  _tile_loadd(0, step.sums, 4 * step.columns);
  _tile_loadd(1, step.left, 4 * step.words);
  _tile_loadd(2, step.right, 4 * step.columns);
  if (step.int8) {
    _tile_dpbssd(0, 1, 2);
  } else {
    _tile_dpbf16ps(0, 1, 2);
  }
  _tile_stored(0, step.sums, 4 * step.columns);
  __asm__ volatile("" ::: "memory");
  _tile_release();
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE

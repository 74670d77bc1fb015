// Owns an AVX-512 emulation of the AMX tile registers and instructions that kernels/amx uses, bit for bit
// (tiles_test.cpp compares them with a processor's). Included before a source of kernels/amx, it replaces the
// intrinsics' names. An operation that a processor would refuse ends the process.
// Like the kernels' own headers, it includes no standard header with code in it (see simd.h).
#pragma once

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE::emulated {

inline constexpr int kNumTiles = 8, kMostRows = 16, kLineBytes = 64, kWordBytes = 4;

/// The operand of ldtilecfg.
struct TileConfig {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == kLineBytes);

struct TileRegister {
  alignas(kLineBytes) std::byte bytes[kMostRows][kLineBytes];
  int rows, row_bytes;
};

/// A thread's registers. All sizes are zero before configuration and after release.
inline thread_local constinit TileRegister tiles[kNumTiles] = {};

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

inline TileRegister& tile(int number) {
  require(number >= 0 && number < kNumTiles && tiles[number].rows > 0);
  return tiles[number];
}

inline void release() { __builtin_memset(tiles, 0, sizeof tiles); }

inline void load_config(const void* from) {
  TileConfig config;
  __builtin_memcpy(&config, from, sizeof config);
  require(config.palette == 1 && config.start_row == 0);
  release();
  for (int i = 0; i < kNumTiles; ++i) {
    tiles[i].rows = config.rows[i];
    tiles[i].row_bytes = config.row_bytes[i];
    require(tiles[i].rows <= kMostRows && tiles[i].row_bytes <= kLineBytes && tiles[i].row_bytes % kWordBytes == 0 &&
            (tiles[i].rows == 0) == (tiles[i].row_bytes == 0));
  }
}

inline void zero(int number) {
  TileRegister& to = tile(number);
  __builtin_memset(to.bytes, 0, sizeof to.bytes);
}

/// Zeroes elements outside of the configured rows and columns.
inline void load(int number, const void* from, std::int64_t stride_bytes) {
  TileRegister& to = tile(number);
  zero(number);
  for (int r = 0; r < to.rows; ++r) {
    __builtin_memcpy(to.bytes[r], static_cast<const std::byte*>(from) + r * stride_bytes,
                     static_cast<std::size_t>(to.row_bytes));
  }
}

inline void store(int number, void* to, std::int64_t stride_bytes) {
  const TileRegister& from = tile(number);
  for (int r = 0; r < from.rows; ++r) {
    __builtin_memcpy(static_cast<std::byte*>(to) + r * stride_bytes, from.bytes[r],
                     static_cast<std::size_t>(from.row_bytes));
  }
}

/// Checks the shapes of sums += left · right: a left row has one word per row of right.
inline void require_shapes(const TileRegister& sums, const TileRegister& left, const TileRegister& right) {
  require(&sums != &left && &sums != &right && &left != &right);
  require(sums.rows == left.rows && sums.row_bytes == right.row_bytes && left.row_bytes == kWordBytes * right.rows);
}

inline VecI row_of(const TileRegister& of, int row) {
  VecI words;
  __builtin_memcpy(&words, of.bytes[row], sizeof words);
  return words;
}
inline VecI word_of(const TileRegister& of, int row, int word) {
  std::int32_t bits;
  __builtin_memcpy(&bits, of.bytes[row] + word * kWordBytes, sizeof bits);
  return splat(bits);
}

/// Sets the rounding of AMX for its lifetime: to nearest even, with subnormals treated as zero. Restores traps and
/// flags afterwards.
class TileRounding {
 public:
  TileRounding() : before_(0) {
    const unsigned in_tiles = 0x9fc0;
    __asm__ volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(before_) : "m"(in_tiles) : "memory");
  }
  TileRounding(const TileRounding&) = delete;
  TileRounding& operator=(const TileRounding&) = delete;
  ~TileRounding() { __asm__ volatile("ldmxcsr %0" : : "m"(before_) : "memory"); }

 private:
  unsigned before_;
};

// Are named functions, not operators, which the compiler might move out of the rounding's scope.
inline VecF added(VecF a, VecF b) {
  VecF sum;
  __asm__ volatile("vaddps %2, %1, %0" : "=v"(sum) : "v"(a), "v"(b));
  return sum;
}
inline VecF with_product(VecF sum, VecF a, VecF b) {
  __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}

/// Adds bf16 products in fp32: even and odd inputs in separate chains of fma, then sums + (even + odd).
inline void add_bf16_products(int sums_number, int left_number, int right_number) {
  TileRegister& sums = tile(sums_number);
  const TileRegister &left = tile(left_number), &right = tile(right_number);
  require_shapes(sums, left, right);
  const TileRounding rounding;
  for (int r = 0; r < sums.rows; ++r) {
    VecF even = {}, odd = {};
    for (int k = 0; k < right.rows; ++k) {
      const VecI a = word_of(left, r, k), b = row_of(right, k);
      even = with_product(even, float_of_bits(a << 16), float_of_bits(b << 16));
      odd = with_product(odd, float_of_bits(a & ~0xffff), float_of_bits(b & ~0xffff));
    }
    const VecF sum = added(float_of_bits(row_of(sums, r)), added(even, odd));
    __builtin_memcpy(sums.bytes[r], &sum, static_cast<std::size_t>(sums.row_bytes));
  }
}

/// Adds products of a word's four signed bytes with signed bytes, in wrapping int32.
inline void add_int8_products(int sums_number, int left_number, int right_number) {
  TileRegister& sums = tile(sums_number);
  const TileRegister &left = tile(left_number), &right = tile(right_number);
  require_shapes(sums, left, right);
  const auto low_bytes = [](VecI words) { return (VecI16)((VecU16)words << 8) >> 8; };
  const auto high_bytes = [](VecI words) { return (VecI16)words >> 8; };
  for (int r = 0; r < sums.rows; ++r) {
    VecU sum = (VecU)row_of(sums, r);
    for (int k = 0; k < right.rows; ++k) {
      const VecI a = word_of(left, r, k), b = row_of(right, k);
      sum += (VecU)_mm512_madd_epi16((__m512i)low_bytes(a), (__m512i)low_bytes(b));
      sum += (VecU)_mm512_madd_epi16((__m512i)high_bytes(a), (__m512i)high_bytes(b));
    }
    __builtin_memcpy(sums.bytes[r], &sum, static_cast<std::size_t>(sums.row_bytes));
  }
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE::emulated

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig(from) emulated::load_config(from)
#define _tile_release() emulated::release()
#define _tile_zero(tile) emulated::zero(tile)
#define _tile_loadd(tile, from, stride) emulated::load(tile, from, stride)
#define _tile_stored(tile, to, stride) emulated::store(tile, to, stride)
#define _tile_dpbf16ps(sums, left, right) emulated::add_bf16_products(sums, left, right)
#define _tile_dpbssd(sums, left, right) emulated::add_int8_products(sums, left, right)

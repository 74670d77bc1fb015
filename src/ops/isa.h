// Owns the choice of instruction set for this process.
#pragma once

#include <string>
#include <string_view>

namespace qrl::ops {

struct TileKernels;  // kernels/kernels.h

/// Code paths of the CPU kernels, best first. amx is avx512 with matmuls of int8 and bf16 in AMX tiles; the operating
/// system must grant their use. avx512 needs F, BW, DQ, VL, VNNI, BF16 and VBMI. avx2 needs AVX2 and FMA.
enum class Isa { amx, avx512, avx2, portable };

std::string_view name(Isa isa);

/// Returns the path in use: the best of this processor, or the one that QRL_ISA (amx | avx512 | avx2 | portable)
/// forces. The choice is made once. Throws an input error for a forced path that the processor lacks.
Isa isa();

/// Switches to this path, for tests and benchmarks. Must not be called while kernels run.
void force_isa(Isa isa);

/// Replaces the tile kernels of the amx path, for tests; null restores its own. With a replacement any processor with
/// avx512 can run the path. Must not be called while kernels run.
void replace_tiles(const TileKernels* tiles);

bool supported(Isa isa);

/// Returns the table for the path in use.
template <class Table>
const Table& for_this_isa(const Table& amx, const Table& avx512, const Table& avx2, const Table& portable) {
  const Isa path = isa();
  return path == Isa::amx ? amx : path == Isa::avx512 ? avx512 : path == Isa::avx2 ? avx2 : portable;
}
/// Same, for tables that amx shares with avx512.
template <class Table>
const Table& for_this_isa(const Table& avx512, const Table& avx2, const Table& portable) {
  return for_this_isa(avx512, avx512, avx2, portable);
}

/// Returns the path in use and those of this processor: "avx512 (of avx512, avx2, portable)".
std::string describe_isa();

}  // namespace qrl::ops

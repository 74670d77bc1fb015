// Owns the choice of instruction set for this process.
#pragma once

#include <string>
#include <string_view>

namespace qrl::ops {

struct TileKernels;  // kernels/kernels.h

/// Code paths of the CPU kernels, best first. amx is avx512 with int8 and bf16 matmuls in AMX tiles, which the
/// operating system must grant. avx512 needs F, BW, DQ, VL, VNNI, BF16 and VBMI. avx2 needs AVX2 and FMA.
enum class Isa { amx, avx512, avx2, portable };

std::string_view name(Isa isa);

/// Returns the path in use, chosen once: the best of this processor, or QRL_ISA's (amx | avx512 | avx2 | portable).
/// Throws an input error if the processor lacks it.
Isa isa();

/// Switches the path, for tests and benchmarks, while no kernel runs.
void force_isa(Isa isa);

/// Replaces the amx path's tile kernels, for tests, while no kernel runs; null restores its own. Any processor with
/// avx512 can then run the path.
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

/// Returns "avx512 (of avx512, avx2, portable)": the path in use, and this processor's.
std::string describe_isa();

}  // namespace qrl::ops

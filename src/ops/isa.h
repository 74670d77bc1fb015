// Owns the choice of instruction set for this process. Knows nothing of the kernels behind it.
#pragma once

#include <string>
#include <string_view>

namespace qrl::ops {

struct TileKernels;  // kernels/kernels.h

/// Code paths of the CPU kernels, best first: amx is avx512 with matmuls of int8 and bf16 in AMX's tiles (and
/// needs the system's leave for them); avx512 needs F, BW, DQ, VL, VNNI, BF16 and VBMI; avx2 needs AVX2 and FMA.
enum class Isa { amx, avx512, avx2, portable };

std::string_view name(Isa isa);

/// The path in use: the best this processor has, or the one QRL_ISA (amx | avx512 | avx2 | portable) forces. A forced
/// path that the processor lacks is an input error, never a silent fallback. Read once.
Isa isa();

/// For tests and benchmarks: uses this path from now on. Not while kernels run.
void force_isa(Isa isa);

/// For tests: the path amx computes with these tiles from now on, and this processor can run it where it can run
/// avx512. Null: with its own again. Not while kernels run.
void replace_tiles(const TileKernels* tiles);

/// Whether this processor can run a path.
bool supported(Isa isa);

/// Returns the build of a kernel table for the path in use.
template <class Table>
const Table& for_this_isa(const Table& amx, const Table& avx512, const Table& avx2, const Table& portable) {
  const Isa path = isa();
  return path == Isa::amx ? amx : path == Isa::avx512 ? avx512 : path == Isa::avx2 ? avx2 : portable;
}
/// Where amx has nothing of its own.
template <class Table>
const Table& for_this_isa(const Table& avx512, const Table& avx2, const Table& portable) {
  return for_this_isa(avx512, avx512, avx2, portable);
}

/// "avx512 (of avx512, avx2, portable)": the path in use and those this processor has.
std::string describe_isa();

}  // namespace qrl::ops

#pragma once

#include <string>
#include <string_view>

namespace qrl::ops {

struct TileKernels;  // kernels/kernels.h

/// Code paths of the CPU kernels, best first. amx: avx512 with int8 and bf16 matmuls in AMX tiles, if the operating
/// system grants them. avx512: needs F, BW, DQ, VL, VNNI, BF16 and VBMI. avx2: needs AVX2 and FMA.
enum class Isa { amx, avx512, avx2, portable };

std::string_view name(Isa isa);

/// Returns the process's path: the environment variable QRL_ISA, else the processor's best. Throws an input error if
/// the processor lacks it.
Isa isa();

/// Switches the path, for tests and benchmarks. Call only while no kernel runs.
void force_isa(Isa isa);

/// Replaces the amx path's tile kernels, for tests on other avx512 processors. Null restores the originals. Call only
/// while no kernel runs.
void replace_tiles(const TileKernels* tiles);

bool supported(Isa isa);

/// Returns the path in use and the available paths, such as "avx512 (of avx512, avx2, portable)".
std::string describe_isa();

}  // namespace qrl::ops

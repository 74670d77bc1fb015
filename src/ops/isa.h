#pragma once

#include <string>
#include <string_view>

namespace qrl::ops {

struct TileKernels;

/// Code paths of the CPU kernels, best first. amx: avx512 with int8 and bf16 matmuls in AMX tiles, which the operating
/// system must grant. avx512: needs F, BW, DQ, VL, VNNI, BF16 and VBMI. avx2: needs AVX2 and FMA.
enum class Isa { amx, avx512, avx2, portable };

std::string_view name(Isa isa);

/// Returns the code path in use: the one that the environment variable QRL_ISA names. If it is unset, returns the best
/// supported path. Throws an input error if QRL_ISA is unknown or not supported.
Isa isa();

/// How the avx512 path multiplies bf16 numbers: by vdpbf16ps, in pairs, or widened by fp32 FMAs. The results are equal.
enum class Bf16Products { pairs, fma };

/// Returns the faster way, from a measurement of a millisecond before the first kernel. Other paths have one way.
Bf16Products bf16_products();

/// For tests and benchmarks. Call only while no kernel runs.
void force_isa(Isa isa);
void force_isa(Isa isa, Bf16Products products);

/// Replaces the amx path's tile kernels, for tests on processors without AMX. Null restores the originals. Call only
/// while no kernel runs.
void replace_tiles(const TileKernels* tiles);

bool supported(Isa isa);

/// Returns the path in use and the supported ones, such as "avx512 (of avx512, avx2, portable), bf16 by fp32 FMAs".
std::string describe_isa();

}  // namespace qrl::ops

#include "ops/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops {

namespace {

constexpr std::array kBestFirst{Isa::amx, Isa::avx512, Isa::avx2, Isa::portable};

bool tiles_granted() {
  static const bool granted = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kTiles = 1U << 24, kInt8 = 1U << 25, kBf16 = 1U << 22, kWanted = kTiles | kInt8 | kBf16;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kWanted) != kWanted) return false;
    constexpr long kRequest = 0x1023, kTileData = 18;  // Linux: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return granted;
}

Kernels with_tiles(const TileKernels& tiles) {
  Kernels kernels = avx512::kKernels;
  kernels.adds_products = false;
  kernels.linear_bf16 = tiles.linear_bf16;
  kernels.linear_int8 = tiles.linear_int8;
  kernels.linear_fp8 = tiles.linear_fp8;
  kernels.linear_fp8_block = tiles.linear_fp8_block;
  kernels.linear_int4 = tiles.linear_int4;
  kernels.linear_int4_int8 = tiles.linear_int4_int8;
  kernels.peak_bf16 = tiles.peak_bf16;
  kernels.bf16_matmul = &tiles.bf16_matmul;
  kernels.varlen_attention = &tiles.varlen_attention;
  return kernels;
}

constinit const TileKernels* g_tiles = &amx::kTiles;
Kernels g_tiled = with_tiles(amx::kTiles);

double best_rate_of(std::int64_t (*loop)(std::int64_t)) {
  constexpr std::int64_t kRounds = 20'000;
  double best = 0;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const double start_s = base::now_s();
    const std::int64_t operations = loop(kRounds);
    best = std::max(best, static_cast<double>(operations) / (base::now_s() - start_s));
  }
  return best;
}

Bf16Products faster_products() {
  static const bool fma_is_faster = best_rate_of(avx512::kKernels.peak_f32) > best_rate_of(avx512::kKernels.peak_bf16);
  return fma_is_faster ? Bf16Products::fma : Bf16Products::pairs;
}

std::string supported_names() {
  std::string names;
  for (const Isa isa : kBestFirst) {
    if (supported(isa)) names += (names.empty() ? "" : ", ") + std::string(name(isa));
  }
  return names;
}

Isa choose() {
  const char* forced = std::getenv("QRL_ISA");
  for (const Isa isa : kBestFirst) {
    if (forced == nullptr ? supported(isa) : name(isa) == forced) {
      QRL_REQUIRE(supported(isa), "environment variable QRL_ISA",
                  "an instruction set of this processor: " + supported_names(), std::string(name(isa)),
                  "unset QRL_ISA to use the best one");
      return isa;
    }
  }
  base::fail_input("environment variable QRL_ISA", "amx | avx512 | avx2 | portable", base::quoted(forced),
                   "unset QRL_ISA to use the best one");
}

struct Path {
  Isa isa;
  const Kernels* kernels;
};
constexpr Path kPaths[] = {{Isa::amx, &g_tiled},
                           {Isa::avx512, &avx512::kKernels},
                           {Isa::avx2, &avx2::kKernels},
                           {Isa::portable, &portable::kKernels}};
constexpr Path kByFma{Isa::avx512, &avx512::kKernelsByFma};
constinit std::atomic<const Path*> g_path{nullptr};

const Path& use(Isa isa, Bf16Products products) {
  const bool by_fma = isa == Isa::avx512 && products == Bf16Products::fma;
  const Path& path = by_fma ? kByFma : *std::ranges::find(kPaths, isa, &Path::isa);
  g_path.store(&path);
  return path;
}

const Path& use(Isa isa) { return use(isa, isa == Isa::avx512 ? faster_products() : Bf16Products::pairs); }

const Path& path() {
  const Path* in_use = g_path.load(std::memory_order_relaxed);
  if (in_use != nullptr) [[likely]]
    return *in_use;
  return use(choose());
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::amx:
      return "amx";
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::portable:
      return "portable";
  }
  base::fail_internal("isa", "a known instruction set", std::to_string(static_cast<int>(isa)));
}

Isa isa() { return path().isa; }

Bf16Products bf16_products() { return &path() == &kByFma ? Bf16Products::fma : Bf16Products::pairs; }

void force_isa(Isa isa) {
  QRL_INVARIANT(supported(isa), "force_isa", supported_names(), std::string(name(isa)));
  use(isa);
}

void force_isa(Isa isa, Bf16Products products) {
  QRL_INVARIANT(supported(isa), "force_isa", supported_names(), std::string(name(isa)));
  use(isa, products);
}

void replace_tiles(const TileKernels* tiles) {
  g_tiles = tiles == nullptr ? &amx::kTiles : tiles;
  g_tiled = with_tiles(*g_tiles);
}

bool supported(Isa isa) {
  switch (isa) {
    case Isa::amx:
      return supported(Isa::avx512) && (g_tiles != &amx::kTiles || tiles_granted());
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16") &&
             __builtin_cpu_supports("avx512vbmi") && supported(Isa::avx2);
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::portable:
      return true;
  }
  return false;
}

std::string describe_isa() {
  const char* const products = bf16_products() == Bf16Products::fma ? ", bf16 by fp32 FMAs" : "";
  return std::string(name(isa())) + " (of " + supported_names() + ")" + products;
}

const Kernels& kernels() { return *path().kernels; }

}  // namespace qrl::ops

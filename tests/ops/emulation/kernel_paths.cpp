#include "ops/emulation/kernel_paths.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::amx_emulated {
extern const TileKernels kTiles;  // kernels/amx, compiled with emulation/tiles.h
}

namespace qrl::test {

namespace {

constexpr KernelPath kAllPaths[] = {kTilePaths[0],   kTilePaths[1],    kAvx512Paths[0],
                                    kAvx512Paths[1], {ops::Isa::avx2}, {ops::Isa::portable}};

void note(const KernelPath& path, const char* what) {
  const std::filesystem::path dir = QRL_BINARY_DIR "/tests/kernel_paths";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / path.name()) << what << '\n';
}

}  // namespace

std::string KernelPath::name() const {
  const bool by_fma = products == ops::Bf16Products::fma;
  return std::string(ops::name(isa)) + (emulated ? " emulated" : by_fma ? " by fma" : "");
}

bool KernelPath::supported() const { return ops::supported(emulated ? ops::Isa::avx512 : isa); }

std::vector<KernelPath> kernel_paths() {
  std::vector<KernelPath> paths;
  for (const KernelPath& path : kAllPaths) {
    if (!path.supported()) note(path, "lacking");
    else if (!path.emulated || !ops::supported(ops::Isa::amx)) paths.push_back(path);
  }
  return paths;
}

std::vector<KernelPath> tile_paths() {
  std::vector<KernelPath> paths;
  std::ranges::copy_if(kTilePaths, std::back_inserter(paths), &KernelPath::supported);
  return paths;
}

void note_run(const KernelPath& path) { note(path, "ran"); }

void emulate_tiles() { ops::replace_tiles(&ops::amx_emulated::kTiles); }

WithPath::WithPath(const KernelPath& path)
    : before_(ops::isa()), products_before_(ops::bf16_products()), name_(path.name()) {
  if (path.emulated) emulate_tiles();
  ops::force_isa(path.isa, path.products);
  note_run(path);
}

WithPath::~WithPath() {
  ops::force_isa(before_, products_before_);
  ops::replace_tiles(nullptr);
}

}  // namespace qrl::test

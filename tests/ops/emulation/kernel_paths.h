// Owns the kernel paths that tests run on: the program's, and amx on emulated tiles, which runs on every AVX-512
// machine. Records the paths that ran for the last lines of scripts/test.
#pragma once

#include <string>
#include <vector>

#include "ops/isa.h"

namespace qrl::test {

struct KernelPath {
  ops::Isa isa = ops::Isa::portable;
  bool emulated = false;
  ops::Bf16Products products = ops::Bf16Products::pairs;

  std::string name() const;  ///< "avx512", "avx512 by fma", "amx emulated"
  bool supported() const;    ///< by this processor
};

inline constexpr KernelPath kTilePaths[] = {{ops::Isa::amx}, {ops::Isa::amx, true}};
inline constexpr KernelPath kAvx512Paths[] = {{ops::Isa::avx512}, {ops::Isa::avx512, false, ops::Bf16Products::fma}};

/// Returns every path that this processor can run. Emulated tiles are included only if it lacks AMX: they are slow, and
/// tiles_test.cpp compares both.
std::vector<KernelPath> kernel_paths();
/// Returns those of kTilePaths that this processor can run.
std::vector<KernelPath> tile_paths();

/// Records for scripts/test that a case ran on this path.
void note_run(const KernelPath& path);

/// Makes the path amx use emulated tiles from now on.
void emulate_tiles();

/// Selects a path for a scope.
class WithPath {
 public:
  explicit WithPath(const KernelPath& path);
  ~WithPath();
  const std::string& name() const { return name_; }
  WithPath(const WithPath&) = delete;
  WithPath& operator=(const WithPath&) = delete;

 private:
  ops::Isa before_;
  ops::Bf16Products products_before_;
  std::string name_;
};

/// Runs `body` once on every path of kernel_paths().
template <class Body>
void on_every_path(const Body& body) {
  for (const KernelPath& path : kernel_paths()) {
    const WithPath in_use(path);
    body(in_use.name());
  }
}

}  // namespace qrl::test

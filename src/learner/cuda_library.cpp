#include "learner/cuda_library.h"

#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace qrl::learner {

namespace {

constexpr const char* kLibrary = "libtorch_cuda.so";

std::filesystem::path beside_libtorch() {
  Dl_info found{};
  const auto* inside = reinterpret_cast<const void*>(&at::globalContext);
  if (dladdr(inside, &found) == 0 || found.dli_fname == nullptr) return {};
  return std::filesystem::path(found.dli_fname).parent_path() / kLibrary;
}

void open_library() {
  const std::filesystem::path beside = beside_libtorch();
  const bool is_beside = std::filesystem::exists(beside);
  const std::string path = is_beside ? beside.string() : kLibrary;
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* why = dlerror();
  QRL_REQUIRE(false, "trainer.device cuda", "LibTorch's CUDA part", why != nullptr ? why : path + " cannot be opened",
              is_beside ? "the folders of what it needs belong in LD_LIBRARY_PATH"
                        : "run `QRL_CUDA=on scripts/setup`, which puts it beside libtorch_cpu.so; or put the folder of "
                          "a PyTorch " TORCH_VERSION " for CUDA 13 first in LD_LIBRARY_PATH");
}

}  // namespace

void load_cuda_library() {
  static bool loaded = false;
  if (!loaded) {
    // What cuBLAS wants for sums in one order; read when it starts.
    (void)setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    open_library();
    loaded = true;
  }
  QRL_REQUIRE(torch::cuda::is_available(), "trainer.device cuda", "a GPU that LibTorch can use",
              "none (no driver, or CUDA_VISIBLE_DEVICES hides it)", "use trainer.device cpu");
  constexpr bool kOnlyWarns = true;  // a backward pass of attention may have no such form: then its bits may differ
  at::globalContext().setDeterministicAlgorithms(true, kOnlyWarns);
}

}  // namespace qrl::learner

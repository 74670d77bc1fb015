#include "learner/cuda_library.h"

#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "cuda/training.h"

namespace qrl::learner {

namespace {

constexpr const char* kLibrary = "libtorch_cuda.so";

/// Beside the libtorch_cpu.so of this process, as in PyTorch's own folder; where scripts/setup puts it; or its bare
/// name.
std::string find_library() {
  Dl_info found{};
  const auto* inside = reinterpret_cast<const void*>(&at::globalContext);
  if (dladdr(inside, &found) == 0 || found.dli_fname == nullptr) return kLibrary;
  const std::filesystem::path folder = std::filesystem::path(found.dli_fname).parent_path();  // …/libtorch/torch/lib
  const std::filesystem::path of_setup = folder.parent_path().parent_path().parent_path() / "libtorch_cuda/torch/lib";
  for (const auto& path : {folder / kLibrary, of_setup / kLibrary}) {
    if (std::filesystem::exists(path)) return path.string();
  }
  return kLibrary;
}

/// The rest of an error's text, behind where it happened.
std::string without_place(const std::string& what) {
  const std::size_t at = what.find(": expected ");
  return at == std::string::npos ? what : what.substr(at + 2);
}

void open_library() {
  const std::string path = find_library();
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* why = dlerror();
  QRL_REQUIRE(
      false, "trainer.device: cuda", "LibTorch's CUDA part", why != nullptr ? why : path + " cannot be opened",
      path == kLibrary
          ? "run `QRL_TORCH_CUDA=on scripts/setup`, which fetches it; or put the folder of a PyTorch " TORCH_VERSION
            " for CUDA 13 first in LD_LIBRARY_PATH"
          : "the folders of what it needs belong in LD_LIBRARY_PATH");
}

}  // namespace

int load_cuda_library(int number) {
  static bool loaded = false;
  if (!loaded) {
    // What cuBLAS wants for sums in one order; read when it starts.
    (void)setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    open_library();
    loaded = true;
  }
  // LibTorch looks for that part once, the first time that anybody asks for CUDA.
  QRL_INVARIANT(at::globalContext().hasCUDART(), "LibTorch's CUDA part", "loaded before LibTorch was asked for it",
                "loaded too late");
  QRL_REQUIRE(torch::cuda::is_available(), "trainer.device: cuda", "a GPU that LibTorch can use",
              "none (no driver, or CUDA_VISIBLE_DEVICES hides it)", "use trainer.device cpu");
  constexpr bool kOnlyWarns = false;  // with true FlashAttention's backward pass takes its other form
  at::globalContext().setDeterministicAlgorithms(true, kOnlyWarns);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);              // sums that are split over blocks are fp32, too
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // costs a pass over every new tensor
  const int device = number % static_cast<int>(torch::cuda::device_count());
  at::accelerator::setDeviceIndex(static_cast<c10::DeviceIndex>(device));
  return device;
}

double measure_gpu_matmul_flops_per_s(config::ComputeDType dtype) {
  const c10::DeviceIndex device = at::accelerator::getDeviceIndex();
  constexpr std::int64_t kSize = 8192;
  constexpr int kRounds = 10;
  const auto type = dtype == config::ComputeDType::bf16 ? torch::kBFloat16 : torch::kFloat32;
  const torch::Tensor x = torch::randn({kSize, kSize}, torch::TensorOptions().device(torch::kCUDA)).to(type);
  double best_s = 0;
  for (int round = 0; round < kRounds; ++round) {
    at::accelerator::synchronizeDevice(device);
    const double start_s = base::now_s();
    const torch::Tensor y = torch::mm(x, x);
    at::accelerator::synchronizeDevice(device);
    const double took_s = base::now_s() - start_s;
    if (round > 0) best_s = round == 1 ? took_s : std::min(best_s, took_s);  // the first one loads kernels
  }
  return 2.0 * kSize * kSize * kSize / best_s;
}

std::string gpu_fault(int device_number) try {
  (void)cuda::device_uuid(device_number);
  return {};
} catch (const base::Error& error) {
  return without_place(error.what());
}

}  // namespace qrl::learner

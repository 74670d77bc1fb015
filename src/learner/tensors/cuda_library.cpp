#include "learner/tensors/cuda_library.h"

#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "cuda/train/training.h"
#include "learner/tensors/libraries.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

namespace {

std::string without_place(const std::string& what) {
  const std::size_t at = what.find(": expected ");
  return at == std::string::npos ? what : what.substr(at + 2);
}

void open_library() {
  constexpr const char* kWhere = "trainer.device: cuda";
  const std::string path = libtorch_cuda_path();
  base::LibraryReport report = libtorch_cuda_report(path);
  const bool has_path = !report.path.empty();
  if (has_path) base::require(report, kWhere);
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) {
    base::log_info("LibTorch's CUDA part " + (has_path ? report.found + ", " : "") + base::loaded_library_path(path));
    return;
  }
  const char* said = dlerror();
  report.fits = false;
  report.why = said != nullptr ? said : path + " cannot be opened";
  if (has_path) report.what_to_do = "add the folders of the libraries that it needs to LD_LIBRARY_PATH";
  base::require(report, kWhere);
}

}  // namespace

void prefer_expandable_segments() {
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") != nullptr || std::getenv("PYTORCH_ALLOC_CONF") != nullptr) return;
  (void)setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 0);
}

int load_cuda_library(int number) {
  static bool loaded = false;
  if (!loaded) {
    // cuBLAS reads this variable when it starts, and then sums deterministically.
    (void)setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    prefer_expandable_segments();
    open_library();
    loaded = true;
  }
  QRL_INVARIANT(at::globalContext().hasCUDART(), "LibTorch's CUDA part", "a load before its first use",
                "a load after its first use");
  QRL_REQUIRE(torch::cuda::is_available(), "trainer.device: cuda", "a GPU that LibTorch can use",
              "no usable GPU (no driver, or CUDA_VISIBLE_DEVICES hides all GPUs)", "use trainer.device cpu");
  constexpr bool kOnlyWarns = false;  // if true, FlashAttention's backward pass would not be deterministic
  at::globalContext().setDeterministicAlgorithms(true, kOnlyWarns);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);              // keeps split-K sums in fp32
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // filling costs a pass over every new tensor
  const int device = number % static_cast<int>(torch::cuda::device_count());
  at::accelerator::setDeviceIndex(static_cast<c10::DeviceIndex>(device));
  return device;
}

double measure_gpu_matmul_flops_per_s(ComputeDType dtype) {
  const c10::DeviceIndex device = at::accelerator::getDeviceIndex();
  constexpr std::int64_t kSize = 8192;
  constexpr int kRounds = 10;
  const auto type = dtype == ComputeDType::bf16 ? torch::kBFloat16 : torch::kFloat32;
  const torch::Tensor x = torch::randn({kSize, kSize}, torch::TensorOptions().device(torch::kCUDA)).to(type);
  double best_s = 0;
  for (int round = 0; round < kRounds; ++round) {
    at::accelerator::synchronizeDevice(device);
    const double start_s = base::now_s();
    const torch::Tensor y = torch::mm(x, x);
    at::accelerator::synchronizeDevice(device);
    const double took_s = base::now_s() - start_s;
    if (round > 0) best_s = round == 1 ? took_s : std::min(best_s, took_s);  // the first run loads kernels
  }
  return 2.0 * kSize * kSize * kSize / best_s;
}

namespace {

using MemoryCount = c10::CachingAllocator::StatType;

c10::CachingDeviceAllocator::DeviceStats memory_stats(int device_number) {
  return at::getDeviceAllocator(torch::kCUDA)->getDeviceStats(static_cast<c10::DeviceIndex>(device_number));
}
std::int64_t all_of(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<std::size_t>(MemoryCount::AGGREGATE)].current;
}

}  // namespace

std::int64_t gpu_bytes_in_tensors(int device_number) { return all_of(memory_stats(device_number).allocated_bytes); }

namespace {

std::pair<std::size_t, std::size_t> free_and_total(int device_number) {
  return at::getDeviceAllocator(torch::kCUDA)->getMemoryInfo(static_cast<c10::DeviceIndex>(device_number));
}

}  // namespace

std::int64_t gpu_bytes_in_use(int device_number) {
  const auto [free, total] = free_and_total(device_number);
  return static_cast<std::int64_t>(total - free);
}

std::int64_t gpu_bytes_left(int device_number) {
  const auto stats = memory_stats(device_number);
  const std::int64_t kept = all_of(stats.reserved_bytes) - all_of(stats.allocated_bytes);
  const auto [free, total] = free_and_total(device_number);
  const auto used = static_cast<std::int64_t>(total - free) - kept;
  return static_cast<std::int64_t>(kPlannedGpuShare * static_cast<double>(total)) - used;
}

double gpu_bytes(int device_number) { return static_cast<double>(cuda::identify_device(device_number).total_bytes); }

double smallest_gpu_share(int device_number, dist::Collectives& world) {
  const cuda::DeviceIdentity device = cuda::identify_device(device_number);
  return smallest_gpu_share(device.uuid, device.total_bytes, world);
}

double smallest_gpu_share(const std::string& gpu, std::size_t gpu_bytes, dist::Collectives& world) {
  const std::vector<std::string> devices = world.all_gather(gpu);
  const std::vector<std::string> sizes = world.all_gather(std::to_string(gpu_bytes));
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const auto sharing = static_cast<double>(std::ranges::count(devices, devices[rank]));
    smallest = std::min(smallest, std::stod(sizes[rank]) / sharing);
  }
  return smallest;
}

bool share_gpus(int device_number, dist::Collectives& world) {
  std::vector<std::string> devices = world.all_gather(cuda::identify_device(device_number).uuid);
  std::ranges::sort(devices);
  return std::ranges::adjacent_find(devices) != devices.end();
}

void require_nccl(dist::Collectives& world) {
  if (world.size() > 1 && !share_gpus(world.local_rank(), world)) base::require(find_nccl(), "trainer.device: cuda");
}

std::string gpu_fault(int device_number) try {
  (void)cuda::identify_device(device_number);
  return {};
} catch (const base::Error& error) {
  return without_place(error.what());
}

}  // namespace qrl::learner

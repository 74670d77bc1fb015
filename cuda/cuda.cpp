// Implements decode_engine.h and training.h in a program with CUDA.
#include <cuda_runtime_api.h>

#include <string>

#include "cuda/engine/decode_engine.h"
#include "cuda/engine/device_engine.h"
#include "cuda/runtime/libraries.h"
#include "cuda/train/training.h"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda {

std::string version() {
  return std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) + " " QRL_CUDA_ARCHS;
}

std::unique_ptr<DecodeEngine> make_engine(const EngineOptions& options) { return device::make_device_engine(options); }
std::unique_ptr<TrainingKernels> make_training_kernels(int device_number) {
  return device::make_device_training(device_number);
}

DeviceIdentity identify_device(int device_number) {
  const device::DeviceFacts facts = device::use_device(device_number);
  return {facts.uuid, facts.total_bytes};
}

std::vector<base::LibraryReport> find_libraries() {
  int driver_version = 0;
  (void)cudaDriverGetVersion(&driver_version);  // stays 0 without a driver
  (void)cudaGetLastError();
  constexpr int kMajor = CUDART_VERSION / 1000;
  const auto places = device::cublaslt_places(base::loaded_library_path("libtorch_cpu.so"));
  return {device::driver_report(driver_version, CUDART_VERSION), device::open_cublaslt(places, kMajor).report};
}

}  // namespace qrl::cuda

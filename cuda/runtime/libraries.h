// Owns which driver and cuBLASLt this program requires and finds.
#pragma once

#include <string>
#include <vector>

#include "base/shared_library.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Reports the driver, with CUDA's versions: 13010 is 13.1. driver_version 0: no driver.
base::LibraryReport driver_report(int driver_version, int runtime_version);

/// Returns the places to search for cuBLASLt, in order: the process's loaded library; LibTorch's copy, located by the
/// path of libtorch_cpu.so (or empty), since libtorch_cuda.so needs its own and the process keeps the first loaded;
/// then the loader's search and the toolkit's folders.
std::vector<std::string> cublaslt_places(const std::string& libtorch_cpu);

struct CublasLtLibrary {
  void* handle = nullptr;  ///< null: see the report
  base::LibraryReport report;
};
/// Opens the first library that loads, accepted if its major version is `major`.
CublasLtLibrary open_cublaslt(const std::vector<std::string>& places, int major);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

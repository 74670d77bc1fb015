// Owns which driver and which cuBLASLt this program requires and finds. Knows nothing of what they compute.
#pragma once

#include <string>
#include <vector>

#include "base/shared_library.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Reports the driver. Versions have CUDA's form: 13010 is 13.1. driver_version 0: no driver.
base::LibraryReport driver_report(int driver_version, int runtime_version);

/// Returns the places to search for cuBLASLt, in order. The library that the process has loaded comes first. LibTorch's
/// own copy comes second, located by the path of libtorch_cpu.so (or empty), as pip and scripts/setup unpack it. The
/// process keeps the first copy that it loads, and libtorch_cuda.so needs its own. The loader's search and the
/// toolkit's folders come last.
std::vector<std::string> cublaslt_places(const std::string& libtorch_cpu);

struct CublasLtLibrary {
  void* handle = nullptr;  ///< null: see the report
  base::LibraryReport report;
};
/// Opens the first library that loads. It is accepted if its major version is `major`.
CublasLtLibrary open_cublaslt(const std::vector<std::string>& places, int major);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

#pragma once

#include <string>
#include <vector>

#include "base/shared_library.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Reports whether the driver is new enough. Versions are CUDA's (13010 is 13.1); driver_version 0 means no driver.
base::LibraryReport driver_report(int driver_version, int runtime_version);

/// Returns the paths to try for cuBLASLt. Their order: the library that the process has loaded, the copy installed for
/// libtorch_cuda.so, the loader's search path, the toolkit's folders. libtorch_cpu: path of libtorch_cpu.so, or empty.
std::vector<std::string> cublaslt_places(const std::string& libtorch_cpu);

struct CublasLtLibrary {
  void* handle = nullptr;  ///< null: no library accepted; see `report`
  base::LibraryReport report;
};
/// Opens the first library that loads; accepts it if its major version is `major`.
CublasLtLibrary open_cublaslt(const std::vector<std::string>& places, int major);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

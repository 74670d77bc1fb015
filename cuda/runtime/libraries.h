// Owns which driver and which cuBLASLt this program wants and finds. Knows nothing of what they compute.
#pragma once

#include <string>
#include <vector>

#include "base/shared_library.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Versions as CUDA has them: 13010 is 13.1. driver_version 0: there is no driver.
base::LibraryReport driver_report(int driver_version, int runtime_version);

/// Where cuBLASLt may be, in the order in which it is looked for. First the one that the process has loaded. Then
/// LibTorch's own, which lies beside libtorch_cpu.so (its path, or empty) as pip and scripts/setup unpack it: whichever
/// comes first into the process is the one that libtorch_cuda.so gets, too, and that wants its own. Then the loader's
/// search, and the toolkit's folders.
std::vector<std::string> cublaslt_places(const std::string& libtorch_cpu);

struct CublasLtLibrary {
  void* handle = nullptr;  ///< null: see the report
  base::LibraryReport report;
};
/// The first of those that opens; it fits when its version is of this program's `major`.
CublasLtLibrary open_cublaslt(const std::vector<std::string>& places, int major);

}  // namespace qrl::cuda::QRL_CUDA_TARGET

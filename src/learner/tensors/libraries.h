#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"

namespace qrl::learner {

/// Reports LibTorch's version, given aoti_torch_abi_version(), or 0 if that function is missing (before 2.9).
base::LibraryReport libtorch_report(std::uint64_t abi_version, const std::string& path);
/// Throws an input error if the loaded LibTorch is not the build's version. Call it before using LibTorch.
void require_libtorch();

/// Returns the path of libtorch_cuda.so: beside this process's libtorch_cpu.so, in scripts/setup's folder, or in
/// LD_LIBRARY_PATH; else the bare name.
std::string libtorch_cuda_path();
/// Reports the version from PyTorch's version.py, or from the .dist-info next to the library. An unknown version is
/// accepted.
base::LibraryReport libtorch_cuda_report(const std::string& path);

/// Reports NCCL's version, given ncclGetVersion(): 22809 is 2.28.9, 2304 is 2.3.4; 0 means another library.
base::LibraryReport nccl_report(int version, const base::SharedLibrary& library);

/// Finds NCCL: already loaded, next to LibTorch's CUDA part, or on the loader's search path.
base::LibraryReport find_nccl();

/// Translates a LibTorch GPU error, naming the recipe's key. "CUDA out of memory …" becomes an input error, a missing
/// deterministic implementation an internal error. Returns nothing for other texts.
std::optional<base::Error> gpu_error(const std::string& what);

/// Reports the libraries that this machine's GPU needs for rollouts and, if `learns`, for a learner. Missing libraries
/// are no error. Omits NCCL.
std::vector<base::LibraryReport> gpu_libraries(bool learns);

}  // namespace qrl::learner

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"

namespace qrl::learner {

/// Reports LibTorch's version. abi_version: aoti_torch_abi_version(), or 0 if that function is missing (before 2.9).
base::LibraryReport libtorch_report(std::uint64_t abi_version, const std::string& path);
/// Throws an input error if the loaded LibTorch is not the build's version. Call it before using LibTorch.
void require_libtorch();

/// Returns libtorch_cuda.so's path: next to the loaded libtorch_cpu.so, in scripts/setup's folder, or in
/// LD_LIBRARY_PATH. If not found, returns the bare name.
std::string libtorch_cuda_path();
/// Reports the version of the LibTorch CUDA library at `path`, from PyTorch's version.py or from the name of PyTorch's
/// .dist-info folder. An unknown version is accepted.
base::LibraryReport libtorch_cuda_report(const std::string& path);

/// Reports NCCL's version. `version` is the result of ncclGetVersion(): 22809 is 2.28.9, 2304 is 2.3.4. 0 is another
/// library.
base::LibraryReport nccl_report(int version, const base::SharedLibrary& library);

/// Finds NCCL, in this order: already loaded, next to LibTorch's CUDA part, on the loader's search path.
base::LibraryReport find_nccl();

/// Translates a LibTorch GPU error into an error that names the recipe's keys. "CUDA out of memory …" becomes an input
/// error. A missing deterministic implementation becomes an internal error. Returns nothing for other texts.
std::optional<base::Error> gpu_error(const std::string& what);

/// Reports the libraries that this machine's GPU needs for rollouts and, if `learns`, for a learner. Missing libraries
/// are no error. Omits NCCL.
std::vector<base::LibraryReport> gpu_libraries(bool learns);

}  // namespace qrl::learner

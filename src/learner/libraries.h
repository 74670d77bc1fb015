// Owns which libraries this program wants and finds while it runs: LibTorch and its CUDA part, NCCL, and those of
// cuda/. Knows nothing of what they compute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"

namespace qrl::learner {

/// Reports the version of a process's LibTorch by the result of aoti_torch_abi_version(); 0: it has no such function
/// (before 2.9).
base::LibraryReport libtorch_report(std::uint64_t abi_version, const std::string& path);
/// Throws an input error if the loaded LibTorch is not of the version that this program was built with. Call it before
/// LibTorch is used.
void require_libtorch();

/// Returns the path of libtorch_cuda.so. Looks beside the libtorch_cpu.so of this process, as in PyTorch's own folder,
/// then where scripts/setup puts it, then in LD_LIBRARY_PATH. Returns the bare name if it finds none.
std::string libtorch_cuda_path();
/// Reports the version by the files beside the library: PyTorch's version.py, or the .dist-info that pip and
/// scripts/setup unpack. A library without a known version is accepted; loading it shows missing parts.
base::LibraryReport libtorch_cuda_report(const std::string& path);

/// Reports NCCL's version by the result of ncclGetVersion: 22809 is 2.28.9, 2304 is 2.3.4. 0: another library.
base::LibraryReport nccl_report(int version, const base::SharedLibrary& library);

/// Finds NCCL: loaded already, beside LibTorch's CUDA part, or by the loader's search.
base::LibraryReport find_nccl();

/// Turns what LibTorch says of a GPU into an error of ours with the recipe's key: memory that ends ("CUDA out of
/// memory. Tried to allocate …"; an input error) and an operation without a deterministic implementation (an internal
/// error). Returns nothing for another text.
std::optional<base::Error> gpu_error(const std::string& what);

/// Reports the libraries that a GPU's rollouts need on this machine, and with `learns` those of a learner. An absent
/// one is no error. NCCL is not among them: ranks that share a GPU do without.
std::vector<base::LibraryReport> gpu_libraries(bool learns);

}  // namespace qrl::learner

// Owns the check that a caller's pointer is in the engine's device memory.
#pragma once

#include <string>

#include "base/error.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Throws an internal error that names `where` and the memory found, unless `at` points into the device's memory. Call
/// it before a kernel reads `at`, so that the device stays usable: one query without synchronization.
inline void require_on_device(const void* at, const DeviceFacts& device, const char* where) {
  const std::string wanted = memory_name(device.number), found = name_of_memory(at);
  QRL_INVARIANT(found == wanted, where, wanted, found);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

// Owns the check that a caller's pointer is in the engine's device memory. Knows nothing of what the memory holds.
#pragma once

#include <string>

#include "base/error.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Throws an internal error unless `at` points into the device's memory; the error names `where` and the memory found.
/// The check comes before a kernel reads it, so the device stays usable. Costs one query without synchronization.
inline void require_on_device(const void* at, const DeviceFacts& device, const char* where) {
  const std::string wanted = memory_name(device.number), found = name_of_memory(at);
  QRL_INVARIANT(found == wanted, where, wanted, found);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

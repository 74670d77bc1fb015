// Owns the check that a caller's memory is the engine's device's. Knows nothing of what the memory holds.
#pragma once

#include <string>

#include "base/error.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Refuses a pointer that is not into the device's memory, before a kernel reads it: an internal error that names
/// `where` and the memory found. The device stays usable. Costs one query without synchronization.
inline void require_on_device(const void* at, const DeviceFacts& device, const char* where) {
  const std::string wanted = memory_name(device.number), found = name_of_memory(at);
  QRL_INVARIANT(found == wanted, where, wanted, found);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

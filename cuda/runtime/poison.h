// Owns the initial bytes of new memory.
#pragma once

#include <cstdlib>
#include <string_view>

namespace qrl::cuda {

/// Returns the byte that fills new memory: 0, or 0xff with QRL_CUDA_POISON=1 in the environment. It is NaN in bf16,
/// fp16, e4m3 and fp32, and exposes reads before the first write.
inline int new_memory_byte() {
  static const bool poisons = [] {
    const char* value = std::getenv("QRL_CUDA_POISON");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return poisons ? 0xff : 0;
}

}  // namespace qrl::cuda

#pragma once

#include <cstddef>

namespace qrl::learner {

/// Makes LibTorch's CPU tensors reuse freed blocks of similar size, which avoids page faults. Any thread may call it,
/// repeatedly.
void keep_tensor_memory();

void release_tensor_memory();

/// Returns the bytes of unused blocks. Used and unused blocks together never exceed the peak of used ones.
std::size_t kept_tensor_memory_bytes();

}  // namespace qrl::learner

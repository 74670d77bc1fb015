#pragma once

#include <cstddef>

namespace qrl::learner {

/// Makes LibTorch's CPU tensors reuse freed blocks of similar size, because page faults cost a fifth of a training
/// step. Any thread may call it, repeatedly.
void keep_tensor_memory();

/// Returns unused blocks to the system.
void release_tensor_memory();

/// Returns the bytes of unused blocks. Used and unused blocks together never exceed the peak in use.
std::size_t kept_tensor_memory_bytes();

}  // namespace qrl::learner

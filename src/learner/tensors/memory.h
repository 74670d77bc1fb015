// Owns the memory of LibTorch's CPU tensors. Freed blocks are kept for tensors of about that size: the system's page
// faults cost a fifth of a training step.
#pragma once

#include <cstddef>

namespace qrl::learner {

/// Makes LibTorch's CPU memory come from kept blocks. Any number of calls, any thread.
void keep_tensor_memory();

/// Returns unused blocks to the system.
void release_tensor_memory();

/// Returns the bytes of unused blocks. With used ones they never exceed the peak in use.
std::size_t kept_tensor_memory_bytes();

}  // namespace qrl::learner

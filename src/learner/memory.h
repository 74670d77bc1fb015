// Owns the memory of LibTorch's CPU tensors. Blocks are kept for the next tensor of about that size instead of being
// returned to the system, whose page faults cost a fifth of a training step. Knows no tensor.
#pragma once

#include <cstddef>

namespace qrl::learner {

/// Makes LibTorch take its CPU memory from the kept blocks from now on. Any number of calls; any thread.
void keep_tensor_memory();

/// Gives every block that no tensor uses back to the system.
void release_tensor_memory();

/// Bytes in blocks that no tensor uses. With those in use they never exceed the most that was ever in use at once.
std::size_t kept_tensor_memory_bytes();

}  // namespace qrl::learner

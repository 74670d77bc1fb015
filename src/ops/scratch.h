#pragma once

#include <cstdint>

#include "base/buffer.h"

namespace qrl::ops {

inline float* grown(base::Buffer& memory, std::int64_t num_floats) {
  if (memory.empty() || memory.shape()[0] < num_floats) memory = base::Buffer(base::DType::f32, {num_floats});
  return memory.as<float>();
}

/// Returns at least `num_floats` floats of the calling thread's memory, uninitialized and aligned like a Buffer. They
/// are valid until the thread's next call.
inline float* scratch(std::int64_t num_floats) {
  thread_local base::Buffer memory;
  return grown(memory, num_floats);
}

}  // namespace qrl::ops

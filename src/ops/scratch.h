// Owns the working memory of the ops that need some for a row at a time. Knows nothing of what is put there.
#pragma once

#include <cstdint>

#include "base/buffer.h"

namespace qrl::ops {

/// `memory`, made anew where it holds fewer than `num_floats`.
inline float* grown(base::Buffer& memory, std::int64_t num_floats) {
  if (memory.empty() || memory.shape()[0] < num_floats) memory = base::Buffer(base::DType::f32, {num_floats});
  return memory.as<float>();
}

/// Memory of the calling thread, at least `num_floats`, of any content, aligned as a Buffer's and valid until its next
/// call: it grows and is kept, since ops run thousands of times a second.
inline float* scratch(std::int64_t num_floats) {
  thread_local base::Buffer memory;
  return grown(memory, num_floats);
}

}  // namespace qrl::ops

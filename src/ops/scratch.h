// Owns the working memory of the ops that need some for a row at a time. Knows nothing of what is put there.
#pragma once

#include <cstdint>
#include <vector>

namespace qrl::ops {

/// Memory of the calling thread, at least `num_floats`, of any content and valid until its next call: it grows and is
/// kept, since ops run thousands of times a second.
inline float* scratch(std::int64_t num_floats) {
  thread_local std::vector<float> memory;
  const auto needed = static_cast<std::size_t>(num_floats);
  if (memory.size() < needed) memory.resize(needed);
  return memory.data();
}

}  // namespace qrl::ops

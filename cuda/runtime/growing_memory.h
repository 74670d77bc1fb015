// Owns device memory that grows on demand, and the rule when it may move. Knows nothing of its contents.
#pragma once

#include <string>

#include "base/error.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Whether growing memory may move. Recorded ticks name the address of memory that was reserved for them, and of no
/// other: what only a learner's GEMMs use may always move.
struct MayMove {
  bool is_reserved = false, is_recorded = false;
  explicit operator bool() const { return !is_reserved || !is_recorded; }
};

/// Makes `memory` at least num_bytes large; its contents are lost where it grows. An internal error that names `what`
/// where it must not move.
inline void grow(Memory& memory, std::int64_t num_bytes, const MayMove& may_move, const char* what) {
  const auto has_bytes = static_cast<std::int64_t>(memory.num_bytes());
  if (has_bytes >= num_bytes) return;
  QRL_INVARIANT(may_move || memory.empty(), std::string(what) + ", which recorded ticks name",
                "at most the " + std::to_string(has_bytes) + " bytes reserved at upload", std::to_string(num_bytes));
  memory = Memory();  // not both at once
  memory = Memory(static_cast<std::size_t>(num_bytes));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

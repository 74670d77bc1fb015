#pragma once

#include <string>

#include "base/error.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// States whether growing memory may move. Graphs contain addresses of reserved memory only.
struct MayMove {
  bool is_reserved = false, is_recorded = false;
  explicit operator bool() const { return !is_reserved || !is_recorded; }
};

/// Grows `memory` to at least num_bytes; its contents are lost then. Throws an internal error that names `what` if it
/// must not move.
inline void grow(Memory& memory, std::int64_t num_bytes, const MayMove& may_move, const char* what) {
  const auto has_bytes = static_cast<std::int64_t>(memory.num_bytes());
  if (has_bytes >= num_bytes) return;
  QRL_INVARIANT(may_move || memory.empty(), std::string(what) + ", which recorded ticks name",
                "at most the " + std::to_string(has_bytes) + " bytes reserved at upload", std::to_string(num_bytes));
  memory = Memory();  // first, so that both never exist at once
  memory = Memory(static_cast<std::size_t>(num_bytes));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET

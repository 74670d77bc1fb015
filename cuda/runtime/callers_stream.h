// Owns the name of a stream that belongs to a caller. Knows nothing of the work on it.
#pragma once

namespace qrl::cuda {

/// A caller's order of work on the engine's device, which outlives the engine: a cudaStream_t; null: CUDA's default.
struct CallersStream {
  void* handle = nullptr;
};

}  // namespace qrl::cuda

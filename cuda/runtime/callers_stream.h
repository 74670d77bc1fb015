#pragma once

namespace qrl::cuda {

/// Holds a caller's stream on the engine's device: a cudaStream_t, or null for CUDA's default stream. The stream must
/// outlive the engine.
struct CallersStream {
  void* handle = nullptr;
};

}  // namespace qrl::cuda
